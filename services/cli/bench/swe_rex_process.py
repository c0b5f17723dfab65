"""SWE-ReX in a process of its own, with the interpreter that has it."""

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from contracts.errors import Invalid, Unavailable

WORKER = Path(__file__).with_name("swe_rex_worker.py")
ALONE = "-I"
"""Nothing of this directory or of the environment gets among its modules."""


class Measured(Struct, frozen=True, kw_only=True):
    seconds: float
    characters: int
    """Of output, all commands together."""


class _Asked(Struct, frozen=True, kw_only=True):
    command: str | Sequence[str]
    at_once: int


def find_swe_rex(given: str | None) -> str | None:
    """An interpreter that has it: the given one, else this one; None where neither is there.

    Raises `Invalid` when the given one has none.
    """
    if given is None:
        return sys.executable if importlib.util.find_spec("swerex") else None
    try:
        subprocess.run([given, ALONE, "-c", "import swerex"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Invalid(f"{given} is no Python that has SWE-ReX: {error}") from error
    return given


class SweRex:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def run(self, command: str | Sequence[str], at_once: int = 1) -> Measured:
        """A string goes to the shell. Raises `Unavailable` when the process has ended or a command failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(_Asked(command=command, at_once=at_once)) + b"\n")
        answer = await self._process.stdout.readline()
        if not answer:
            raise Unavailable("SWE-ReX has ended; its last words are above")
        return msgspec.json.decode(answer, type=Measured)


@asynccontextmanager
async def swe_rex_process(python: str) -> AsyncIterator[SweRex]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(python, ALONE, str(WORKER), stdin=pipe, stdout=pipe)
    try:
        yield SweRex(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
