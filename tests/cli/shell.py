"""`cloche` as a person at a shell has it: a data directory, arguments, bytes in, bytes out."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from infra.keeper.launcher import end_keeper
from tests.cli.command_line import CommandLine
from tests.services.node import ROOT, end_sandboxes

PATIENCE_S = 60.0


class Said(NamedTuple):
    code: int
    out: bytes
    err: bytes


class Shell:
    def __init__(self, data: Path, **env: str) -> None:
        self.data = data
        self.env = {
            **os.environ,
            "CLOCHE_DATA": str(data),
            "CLOCHE_DURABILITY": "process",
            "CLOCHE_ISOLATION": "local",
            "CLOCHE_POOL": "0",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "80",
            **env,
        }

    def argv(self, *arguments: str) -> list[str]:
        """For a new interpreter."""
        return [sys.executable, "-m", "services.cli", *arguments]

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Said:
        with CommandLine(arguments, self.env, stdin=subprocess.PIPE) as line:
            out, err = line.communicate(stdin, PATIENCE_S)
            return Said(line.wait(), out, err)

    @contextmanager
    def begun(self, *arguments: str) -> Iterator[CommandLine]:
        """A command line that goes on; whatever is left of it in the end is killed."""
        with CommandLine(arguments, self.env) as line:
            try:
                yield line
            finally:
                line.kill()

    @contextmanager
    def begun_anew(self, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
        """As `begun`, by a new interpreter, which inherits what this process has."""
        with subprocess.Popen(
            self.argv(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def digest(self, *arguments: str) -> tuple[int, int, str]:
        """Its exit code, and size and sha256 of what it says, however much that is."""
        size, hashed = 0, hashlib.sha256()
        with self.begun(*arguments) as process:
            assert process.stdout is not None
            while chunk := process.stdout.read(1 << 20):
                size += len(chunk)
                hashed.update(chunk)
            return process.wait(PATIENCE_S), size, hashed.hexdigest()

    def running(self) -> list[str]:
        """The command lines of all processes that work on this data directory."""
        mark = f"CLOCHE_DATA={self.data}\0".encode()
        found = []
        for entry in os.scandir("/proc"):
            try:
                if entry.name.isdigit() and mark in Path(entry.path, "environ").read_bytes() + b"\0":
                    found.append(Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@contextmanager
def cleaned(data: Path, **env: str) -> Iterator[Shell]:
    """Ends whatever a test leaves behind."""
    shell = Shell(data, **env)
    try:
        yield shell
    finally:
        shell("down")
        asyncio.run(_end(data))


async def _end(data: Path) -> None:
    await end_sandboxes(data)
    await end_keeper(data, force=True)


@contextmanager
def up_in(data: Path, **env: str) -> Iterator[Shell]:
    with cleaned(data, **env) as shell:
        said = shell("up", "--detach")
        assert said.code == 0, said.err
        yield shell
