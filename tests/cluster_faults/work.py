"""Commands with known output over several sandboxes, and what the log has to say of each."""

import asyncio
import zlib
from collections.abc import Collection, Iterable

from contracts.events.command import Stream
from infra.client import Cloche, Sandbox
from tests.faults.stories import Story, exec_id, stories

AT_ONCE = 12


def lines(number: int) -> list[str]:
    """Each with its number and a checksum."""
    told = [f"line {number} {at}" for at in range(2 + number % 5)]
    return [f"{line} {zlib.crc32(line.encode()):08x}" for line in told]


def fed(number: int) -> bytes:
    """What is written to its stdin: some commands read, most do not."""
    return b"".join(b"fed %d %d\n" % (number, at) for at in range(200)) if number % 5 == 0 else b""


def script(number: int, pause_s: float) -> str:
    """Large and small, quick and slow; some fail. Leaves a mark of each time that it ran."""
    told = "".join(f"echo {line}; echo note {number} >&2; sleep {pause_s}; " for line in lines(number))
    reading = "cat; " if fed(number) else ""
    large = f"head -c {(number % 4) * 50_000} /dev/zero | tr '\\0' 'x'; "
    return f"echo ran >> ran-{number}; {reading}{told}{large}exit {number % 3}"


def expected(number: int) -> tuple[bytes, bytes, int]:
    out = fed(number) + "".join(f"{line}\n" for line in lines(number)).encode() + b"x" * ((number % 4) * 50_000)
    return out, b"note %d\n" % number * len(lines(number)), number % 3


class Work:
    """Numbered commands, each in the sandbox of its turn."""

    def __init__(self, sandboxes: list[Sandbox]) -> None:
        self._sandboxes = sandboxes
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self.asked: list[int] = []
        self.acknowledged: list[int] = []
        self.ended: list[int] = []

    def sandbox_of(self, number: int) -> Sandbox:
        return self._sandboxes[number % len(self._sandboxes)]

    def has_begun(self, number: int) -> bool:
        """One of those from this number on."""
        return any(each >= number for each in self.acknowledged)

    async def run(self, numbers: Iterable[int], pause_s: float) -> None:
        await asyncio.gather(*(self._one(number, pause_s) for number in numbers))

    async def _one(self, number: int, pause_s: float) -> None:
        sandbox = self.sandbox_of(number)
        async with self._at_once:
            command = exec_id(sandbox.id, number)
            self.asked.append(number)
            execution = await sandbox.start(script(number, pause_s), id=command, stdin=bool(fed(number)))
            self.acknowledged.append(number)
            if fed(number):
                await execution.write(fed(number))
                await execution.close_stdin()
            async for _ in execution.output():
                pass
            self.ended.append(number)

    async def check(self, cloche: Cloche, *, excused: Collection[int] = ()) -> dict[str, int]:
        """Every one ended once: as it should, or with a cause if it is `excused`. Returns how many ended how."""
        told: dict[str, Story] = {}
        for sandbox in self._sandboxes:
            told |= await stories(cloche, sandbox.id)
        ends: dict[str, int] = {}
        for number in self.acknowledged:
            story = told[exec_id(self.sandbox_of(number).id, number)]
            assert len(story.ends) == 1, (number, story.ends)
            out, err, code = expected(number)
            if story.ends == ["completed"]:
                assert (story.starts, story.code) == (1, code), number
                assert story.streams[Stream.STDOUT] == out, number
                assert story.streams[Stream.STDERR] == err, number
            else:
                assert number in excused, (number, story.ends, story.cause)
                assert (story.ends[0], story.starts) in (("lost", 1), ("rejected", 0)), (number, story.ends)
                assert story.cause, number
                assert story.code is None, number
                assert out.startswith(story.streams[Stream.STDOUT]), number
            ends[story.ends[0]] = ends.get(story.ends[0], 0) + 1
        return ends
