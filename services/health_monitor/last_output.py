"""The last words of a sandbox, as the log has them."""

import asyncio

from contracts import codec, subjects
from contracts.errors import ClocheError
from contracts.events.command import CommandOutput
from contracts.payload import unpack
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry

MOST = 4096
SETTLED_S = 0.03
LOOKS = 8
WINDOWS = (64, 1024, 16_384)
"""Sequences before the last output that are looked through for more of it."""
PAGE_BYTES = 1 << 20


async def last_output(bus: Bus, sandbox: str, since: int) -> str:
    """Up to 4 KiB of text after sequence `since`, of all commands; empty where the log cannot be asked."""
    filter_ = subjects.outputs(sandbox)
    try:
        newest = await _settled(bus, filter_)
        return "" if newest is None or newest.seq < since else await _before(bus, filter_, newest, since)
    except ClocheError:
        return ""


async def _settled(bus: Bus, filter_: str) -> Entry | None:
    """What was written last may be on its way to the log yet."""
    newest = await reader.last(bus, filter_)
    for _ in range(LOOKS):
        await asyncio.sleep(SETTLED_S)
        before, newest = newest, await reader.last(bus, filter_)
        if (newest and newest.seq) == (before and before.seq):
            break
    return newest


async def _before(bus: Bus, filter_: str, newest: Entry, since: int) -> str:
    text = _text(newest)
    for window in WINDOWS:
        if len(text) >= MOST:
            break
        start = max(newest.seq - window, since, 1)
        found = await reader.fetch(bus, [filter_], start, max_bytes=PAGE_BYTES)
        if found.pending:
            break
        text = b"".join(_text(entry) for entry in found.entries)
        if start <= since:
            break
    return text[-MOST:].decode("utf-8", "replace")


def _text(entry: Entry) -> bytes:
    fact = codec.decode_fact(codec.decode_head(entry.data))
    return unpack(fact.data, fact.encoding) if isinstance(fact, CommandOutput) else b""
