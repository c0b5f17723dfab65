"""What the sandbox swaps during a call never makes it leave: thousands of tries against another process."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from contracts.errors import ClocheError
from infra.files.beneath import Way
from tests.files.verbs import VERBS
from tests.files.workspaces import SECRET, Ground

TRIES = 60
MOST_TRIES = 200_000
"""Of each verb, way and swap: thousands in all."""

REFUSALS = {"SANDBOX_PATH_DENIED", "SANDBOX_FILE_NOT_FOUND", "INVALID"}
CHANGED_MEANWHILE = {"SANDBOX_EDIT_NO_MATCH", "SANDBOX_COPY_FAILED", "CONFLICT"}

EXCHANGE = """
import ctypes, sys
libc = ctypes.CDLL(None)
one, other = (each.encode() for each in sys.argv[1:3])
print("swapping", flush=True)
while True:
    if libc.renameat2(-100, one, -100, other, 2):
        sys.exit("they cannot be exchanged")
"""
RELINK = """
import os, sys
inner, outer, name = sys.argv[1:4]
print("swapping", flush=True)
while True:
    for target in (inner, outer):
        os.link(target, name + ".new")
        os.rename(name + ".new", name)
        if os.path.exists(name + ".new"):
            os.unlink(name + ".new")
"""


@contextmanager
def swapping(script: str, *arguments: object) -> Iterator[None]:
    argv = [sys.executable, "-I", "-c", script, *map(str, arguments)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"swapping\n"
            yield
            assert process.poll() is None
        finally:
            process.kill()


def attack(
    ground: Ground, way: Way, path: str, verbs: tuple[str, ...] = tuple(VERBS), until: tuple[str, ...] = ()
) -> Counter[str]:
    """Goes on until each of `until` was an answer: on a busy machine the other process may be late."""
    seen: Counter[str] = Counter()
    before = ground.fingerprint()
    with ground.open(way) as workspace:
        for number in range(MOST_TRIES):
            if number >= TRIES * len(verbs) and all(seen[each] for each in until):
                break
            try:
                answer = VERBS[verbs[number % len(verbs)]](ground, workspace, path, None)
            except ClocheError as error:
                seen[error.code] += 1
            else:
                assert SECRET.strip() not in msgspec.json.encode(answer)
                seen["done"] += 1
    assert ground.fingerprint() == before
    assert set(seen) <= {"done", *REFUSALS, *CHANGED_MEANWHILE}
    return seen


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("target", ["../outside", "absolute", "/proc/self/root/etc"])
def test_a_directory_that_becomes_a_link_leads_nowhere(tmp_path: Path, way: Way, target: str) -> None:
    ground = Ground(tmp_path)
    (ground.workspace / "swapped").mkdir()
    (ground.workspace / "swapped/secret").write_bytes(b"inside\n")
    (ground.workspace / "other").symlink_to(ground.outside if target == "absolute" else target)
    ground.give()
    with swapping(EXCHANGE, ground.workspace / "swapped", ground.workspace / "other"):
        seen = attack(ground, way, "swapped/secret", until=("SANDBOX_PATH_DENIED",))
    assert seen["SANDBOX_PATH_DENIED"]


@pytest.mark.parametrize("way", Way)
def test_a_file_that_becomes_a_link_is_not_followed(tmp_path: Path, way: Way) -> None:
    ground = Ground(tmp_path)
    (ground.workspace / "swapped").write_bytes(b"inside\n")
    (ground.workspace / "other").symlink_to("../outside/secret")
    ground.give()
    verbs = tuple(verb for verb in VERBS if verb not in ("remove", "move_from", "move_to", "mkdir"))
    with swapping(EXCHANGE, ground.workspace / "swapped", ground.workspace / "other"):
        seen = attack(ground, way, "swapped", ("read", "stat", "grep"), until=("SANDBOX_PATH_DENIED", "done"))
        # A write may put its file in the place of the link, and then there is none any more.
        attack(ground, way, "swapped", verbs)
    assert seen["SANDBOX_PATH_DENIED"]
    assert seen["done"]


@pytest.mark.parametrize("way", Way)
def test_a_file_that_becomes_a_pipe_is_never_waited_for(tmp_path: Path, way: Way) -> None:
    ground = Ground(tmp_path)
    (ground.workspace / "d").mkdir()
    (ground.workspace / "d/swapped").write_bytes(b"inside\n")
    os.mkfifo(ground.workspace / "other")
    ground.give()
    verbs = ("read", "edit", "append", "grep", "list", "download", "download_piece")
    with swapping(EXCHANGE, ground.workspace / "d/swapped", ground.workspace / "other"):
        attack(ground, way, "d/swapped", verbs)
        seen = attack(ground, way, "d", ("grep", "list", "glob"))
    assert seen["done"]


@pytest.mark.parametrize("way", Way)
def test_directories_that_are_moved_about_lead_nowhere(tmp_path: Path, way: Way) -> None:
    """A directory is exchanged with one further up while a link through it goes upwards again."""
    ground = Ground(tmp_path)
    (ground.workspace / "a/b/c").mkdir(parents=True)
    (ground.workspace / "a/b/c/up").symlink_to("../../../outside")
    (ground.workspace / "outside").mkdir()
    (ground.workspace / "outside/secret").write_bytes(b"inside\n")
    (ground.workspace / "x").mkdir()
    ground.give()
    verbs = ("read", "write", "append", "edit", "list", "stat", "mkdir", "upload", "download")
    with swapping(EXCHANGE, ground.workspace / "a/b", ground.workspace / "x"):
        seen = attack(ground, way, "a/b/c/up/secret", verbs)
    assert seen["done"] or seen["SANDBOX_FILE_NOT_FOUND"]


@pytest.mark.parametrize("way", Way)
def test_a_file_that_becomes_a_hard_link_is_neither_read_nor_written_through(tmp_path: Path, way: Way) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has files of several owners")
    ground = Ground(tmp_path)
    (ground.workspace / "inner").write_bytes(b"inside\n")
    (ground.workspace / "swapped").write_bytes(b"inside\n")
    ground.give()
    arguments = (ground.workspace / "inner", ground.outside / "secret", ground.workspace / "swapped")
    with swapping(RELINK, *arguments):
        verbs = ("read", "append", "edit", "grep", "download")
        seen = attack(ground, way, "swapped", verbs, until=("SANDBOX_PATH_DENIED",))
    assert seen["SANDBOX_PATH_DENIED"]
