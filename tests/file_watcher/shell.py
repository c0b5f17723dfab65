"""Work in a workspace, done from outside it."""

import os
import subprocess
import sys
from pathlib import Path

STORM = """
import os, random, sys
chance = random.Random(int(sys.argv[1]))
for number in range(int(sys.argv[2])):
    place = f"d{chance.randrange(20)}/e{chance.randrange(5)}"
    os.makedirs(place, exist_ok=True)
    name = f"{place}/f{chance.randrange(60)}"
    match chance.randrange(8):
        case 0 if os.path.exists(name):
            os.unlink(name)
        case 1 if os.path.exists(name):
            os.rename(name, f"{place}/g{number % 50}")
        case 2 if os.path.exists(name):
            os.chmod(name, chance.choice([0o600, 0o644, 0o755]))
        case 3 if number % 97 == 0:
            os.rename(place.partition("/")[0], f"m{number}")
        case _:
            with open(name, "a") as file:
                file.write(f"line {number}\\n" * chance.randrange(20))
"""
"""Thousands of small changes: new directories, moved ones, files written, renamed and deleted."""


def sh(root: Path, script: str) -> None:
    subprocess.run(["sh", "-ec", script], cwd=root, check=True)


def storm(root: Path, seed: int, steps: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", STORM, str(seed), str(steps)], cwd=root)


def flood(root: Path) -> None:
    """More notices than the kernel's queue holds: for while nobody reads it."""
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(queue // 2 + 100):
        descriptor = os.open(root / f"n{number % 50}", os.O_CREAT | os.O_WRONLY)
        os.write(descriptor, b"x")
        os.close(descriptor)
        os.unlink(root / f"n{number % 50}")
