"""Events a second through all rules, beside decoding alone, and a whole log on a server, beside bare reading.

`python -m tests.guardian.speed [EVENTS]`
"""

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import msgspec

from contracts import codec, registry, subjects
from contracts.guardian import Guardian
from infra.bus import reader
from infra.bus.connection import Bus
from services.guardian.engine import bind, filters
from services.guardian.history import History
from services.guardian.moments import milliseconds
from services.guardian.past import past
from services.guardian.rules.table import RULES
from tests.bus.servers import nats_in
from tests.guardian.stories import HONEST
from tests.guardian.story import Line, recorded

SANDBOXES = 40
ROUNDS = 5
EVENTS = 200_000
AT_ONCE = 1000


def log() -> list[tuple[int, bytes]]:
    """Every honest history, once for each of many sandboxes."""
    events = [
        bytes(msgspec.json.decode(line, type=Line).event).replace(b'"sb-1"', b'"sb-%d"' % sandbox)
        for sandbox in range(SANDBOXES)
        for name in HONEST
        for line in recorded(name)
    ]
    return list(enumerate(events, 1))


def decode(events: list[tuple[int, bytes]]) -> None:
    for _, raw in events:
        codec.decode_fact(codec.decode_head(raw))


def judge(events: list[tuple[int, bytes]], *rules: str) -> None:
    history = History(bind(Guardian(), rules))
    for sequence, raw in events:
        list(history.feed(sequence, None, raw))


def rate(work: Callable[[], None], events: int) -> float:
    """Of processor time, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return events / best


async def fill(bus: Bus, events: list[tuple[int, bytes]], count: int) -> None:
    for number, (_, raw) in enumerate(islice(cycle(events), count), 1):
        head = codec.decode_head(raw)
        fact = codec.decode_fact(head)
        assert fact is not None
        await bus.client.publish(subjects.event(head.sandboxid, head.type, registry.scope_of(fact)), raw)
        if number % AT_ONCE == 0:
            await bus.client.flush()
    while (await reader.bounds(bus)).last < count:
        await bus.client.flush()


async def read_bare(bus: Bus, count: int) -> None:
    assert len([entry.seq async for entry in reader.read(bus, [subjects.LOG], 1, follow=False)]) == count


async def judge_all(bus: Bus, count: int) -> None:
    history = History(bind(Guardian()))
    async for entry in past(bus, filters(history.wanted), 1, count):
        list(history.feed(entry.seq, milliseconds(entry.time), entry.data))
    assert history.events == count


async def on_a_server(events: list[tuple[int, bytes]], count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with nats_in(Path(directory)) as server:
            bus = await server.connect("admin")
            await fill(bus, events, count)
            for name, work in (("bare reading", read_bare), ("guardian test", judge_all)):
                begun, used = time.monotonic(), time.process_time()
                await work(bus, count)
                wall, cpu = time.monotonic() - begun, time.process_time() - used
                most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                print(f"{name:<14} {count:,} events: {cpu:6.1f} s of processor, {wall:6.1f} s, {most} MiB at most")


def main() -> None:
    events = log()
    bare = rate(lambda: decode(events), len(events))
    print(f"decoding alone    {bare:10,.0f} events/s")
    print(f"all rules         {rate(lambda: judge(events), len(events)):10,.0f} events/s")
    for name in RULES:
        print(f"{name:<18}{rate(lambda name=name: judge(events, name), len(events)):10,.0f} events/s")  # type: ignore[misc]
    asyncio.run(on_a_server(events, int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS))


if __name__ == "__main__":
    main()
