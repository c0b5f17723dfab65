"""Events of all sandboxes, of every partition: each partition in its own order, and they among each other by time."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import NamedTuple

from contracts import codec, subjects
from contracts.errors import ClocheError
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.client.sandbox import LogEvent

AHEAD = 1000
"""Events of one partition that wait for the others."""


class Told(NamedTuple):
    partition: int
    """Whose log has it."""
    event: LogEvent


async def everything(
    buses: Mapping[int, Bus], cursors: Mapping[int, int], types: Sequence[str], *, follow: bool
) -> AsyncGenerator[Told, None]:
    """From each partition's own cursor on; 1 where none is given. To go on, note `sequence + 1` for its partition.

    What is stored comes by time; with `follow` what happens from now on comes after that, as it is heard of.
    """
    filters = subjects.typed("*", types)
    ends = {number: (await reader.bounds(bus)).last for number, bus in buses.items()}
    stored = {
        number: reader.read(bus, filters, cursors.get(number, 1), end=ends[number], follow=False)
        for number, bus in buses.items()
    }
    async for number, entry in _by_time(stored):
        yield Told(number, _event(entry))
    if not follow:
        return
    coming = {
        number: reader.read(bus, filters, max(ends[number] + 1, cursors.get(number, 1)), follow=True)
        for number, bus in buses.items()
    }
    async with aclosing(_as_they_come(coming)) as told:
        async for number, entry in told:
            yield Told(number, _event(entry))


def _event(entry: Entry) -> LogEvent:
    return LogEvent(entry.seq, entry.subject, codec.decode_head(entry.data), entry.data)


async def _by_time(sources: Mapping[int, AsyncIterator[Entry]]) -> AsyncIterator[tuple[int, Entry]]:
    """Never one before an earlier one of its own source, whatever the clocks of the servers said."""
    heads = {number: entry for number, source in sources.items() if (entry := await anext(source, None))}
    while heads:
        number = min(heads, key=lambda each: (heads[each].time, each))
        yield number, heads[number]
        entry = await anext(sources[number], None)
        if entry is None:
            del heads[number]
        else:
            heads[number] = entry


async def _as_they_come(sources: Mapping[int, AsyncIterator[Entry]]) -> AsyncGenerator[tuple[int, Entry], None]:
    waiting: asyncio.Queue[tuple[int, Entry] | ClocheError] = asyncio.Queue(AHEAD)

    async def bring(number: int, source: AsyncIterator[Entry]) -> None:
        try:
            async for entry in source:
                await waiting.put((number, entry))
        except ClocheError as error:
            await waiting.put(error)

    bringing = [asyncio.create_task(bring(number, source)) for number, source in sources.items()]
    try:
        while True:
            brought = await waiting.get()
            if isinstance(brought, ClocheError):
                raise brought
            yield brought
    finally:
        for task in bringing:
            task.cancel()
        await asyncio.gather(*bringing, return_exceptions=True)
