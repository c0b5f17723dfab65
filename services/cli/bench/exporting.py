"""How fast a session is written to a file."""

import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from infra.bus.connection import Bus
from infra.export.cast import write_cast
from infra.export.jsonl import Span, export
from infra.export.page.page import page
from infra.export.sink import Sink, sink_to
from infra.log.live import LiveView
from services.cli.bench.bare_reading import ORDERED, consumed
from services.cli.bench.figure import Figure
from services.cli.bench.history import SANDBOX, History
from services.cli.bench.sizes import Sizes

MB = 1024 * 1024


class Written(NamedTuple):
    seconds: float
    bytes: int


Write = Callable[[LiveView, Sink, Span], Coroutine[Any, Any, object]]


async def exporting(history: History, _sizes: Sizes) -> list[Figure]:
    directory = history.rig.settings.data
    task = history.rig.progress.add_task("exporting a long history", total=4)
    bare = await history.apart(lambda bus: consumed(bus, history.filter, history.events))
    written: dict[str, Written] = {}
    for name, write in {"JSONL": _jsonl, "asciicast": _cast, "HTML": _html}.items():
        history.rig.progress.advance(task)
        written[name] = await history.apart(partial(_timed, history, directory / f"bench.{name}", write))
    history.rig.progress.remove_task(task)
    return [
        Figure(
            what=f"{history.events:,} events as {name} ({each.bytes / each.seconds / MB:.1f} MB/s)",
            value=history.events / each.seconds,
            unit="events/s",
            bare=history.events / bare,
            beside=f"{ORDERED}, nothing written",
        )
        for name, each in written.items()
    ]


async def _jsonl(view: LiveView, sink: Sink, span: Span) -> None:
    await export(view, sink, span, sandbox=SANDBOX)


async def _cast(view: LiveView, sink: Sink, span: Span) -> None:
    await write_cast(view, sink, span, sandbox=SANDBOX)


async def _html(view: LiveView, sink: Sink, span: Span) -> None:
    async for piece in page(view, SANDBOX, first=span.first, last=span.last):
        await sink.write(piece)


async def _timed(history: History, file: Path, write: Write, bus: Bus) -> Written:
    began = time.perf_counter()
    async with sink_to(file) as sink:
        await write(LiveView(bus), sink, Span(history.first, history.last))
    return Written(time.perf_counter() - began, sink.bytes)
