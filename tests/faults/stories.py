"""Commands with known output, fired at while they run, and the log's story of each."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from contracts import codec, subjects
from contracts.events.command import CommandOutput, CommandStarted, Stream
from contracts.payload import unpack
from contracts.proof import TERMINAL, Proof
from infra.bus import reader
from infra.client import Cloche, Sandbox

AT_ONCE = 10


def script(number: int) -> str:
    """Known output in both streams, some of it large, some of it slow; leaves a mark of each time that it ran."""
    lines = 1 + number % 7
    return (
        f"echo ran >> /workspace/ran-{number}; "
        f"for i in $(seq {lines}); do echo line {number} $i; echo note {number} $i >&2; sleep 0.0{number % 4}; done; "
        f"head -c {(number % 5) * 40_000} /dev/zero | tr '\\0' 'x'; exit {number % 3}"
    )


def expected(number: int) -> tuple[bytes, bytes, int]:
    lines = range(1, 2 + number % 7)
    out = b"".join(b"line %d %d\n" % (number, line) for line in lines) + b"x" * ((number % 5) * 40_000)
    return out, b"".join(b"note %d %d\n" % (number, line) for line in lines), number % 3


def exec_id(sandbox: str, number: int) -> str:
    """No other sandbox's: an order under an id that was just used is taken for the same order."""
    return f"{sandbox}-{number}"


def number_of(exec_id: str) -> int:
    return int(exec_id.rpartition("-")[2])


MOST_STRIKES = 100


class Story:
    """What the log says of one command."""

    def __init__(self) -> None:
        self.streams: dict[Stream, bytes] = dict.fromkeys(Stream, b"")
        self.starts = 0
        self.ends: list[str] = []
        self.code: int | None = None
        self.cause = ""


async def stories(cloche: Cloche, sandbox: str) -> dict[str, Story]:
    found: dict[str, Story] = {}
    proof = Proof()
    async for entry in reader.read(cloche.bus, subjects.events_of(sandbox), 1, follow=False):
        head = codec.decode_head(entry.data)
        proof.feed(entry.seq, head)
        scope = subjects.parse_event(entry.subject).scope
        if not head.type.startswith("command.") or scope is None:
            continue
        story = found.setdefault(scope, Story())
        fact = codec.decode_fact(head)
        if isinstance(fact, CommandStarted):
            story.starts += 1
        elif isinstance(fact, CommandOutput):
            story.streams[fact.stream] += unpack(fact.data, fact.encoding)
        elif head.type.partition(".")[2] in TERMINAL:
            story.ends.append(head.type.partition(".")[2])
            story.code = getattr(getattr(fact, "exit", None), "code", None)
            story.cause = getattr(fact, "cause", "")
    assert proof.summary().findings == ()
    assert proof.summary().open == ()
    return found


async def run_all(sandbox: Sandbox, numbers: range) -> None:
    """Every command asked for under an id of its own, and again under the same id when the asking went wrong."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with at_once:
            execution = await sandbox.start(script(number), id=exec_id(sandbox.id, number))
            await execution.wait()

    await asyncio.gather(*(one(number) for number in numbers))


async def under_fire(work: Awaitable[None], strike: Callable[[], Awaitable[None]], seed: int) -> int:
    """Strikes again and again, at random moments, until the work is done. Returns how often.

    Not for ever: on a busy machine whoever reads may not come to an end between any two strikes.
    """
    moments = random.Random(seed)
    task = asyncio.ensure_future(work)
    strikes = 0
    while not task.done() and strikes < MOST_STRIKES:
        await asyncio.wait([task], timeout=moments.uniform(0.02, 0.6))
        if not task.done():
            await strike()
            strikes += 1
    await task
    return strikes


async def check(cloche: Cloche, sandbox: Sandbox, numbers: range) -> None:
    told = await stories(cloche, sandbox.id)
    for number in numbers:
        story = told[exec_id(sandbox.id, number)]
        out, err, code = expected(number)
        assert (story.starts, story.ends, story.code) == (1, ["completed"], code), number
        assert story.streams[Stream.STDOUT] == out, number
        assert story.streams[Stream.STDERR] == err, number
    ran = await sandbox.run("cat ran-* | wc -l; ls ran-* | wc -l")
    assert ran.stdout.split() == [str(len(numbers)).encode()] * 2
