"""The dashboard's page of a sandbox with a long session, in a browser that has never seen it."""

import asyncio
import datetime
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from contracts.errors import Unavailable
from contracts.events.command import CommandCompleted, CommandOutput, CommandStarted, Exit, Stream, Totals
from contracts.message import Fact
from contracts.payload import pack
from infra.bus import reader
from infra.bus.out_stream import OutStream
from infra.ids import new_id
from infra.journal import Journal
from services.cli.bench.browser import browser
from services.cli.bench.figure import Figure
from services.cli.bench.gateway_process import HERE, GatewayProcess, gateway_process
from services.cli.bench.history import ELSEWHERE, LINE, LOOK_S, facts
from services.cli.bench.page_bare import static_page
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes
from services.dashboard.build import ensure_built

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

NEWEST = "e-newest"
LAST_LINE = "the-newest-line-of-all"
"""Without a blank: terminals have their own for it."""
LINES = [LINE] * 300 + [f"{LAST_LINE}\n".encode()]
"""Of the newest command, whose terminal the page begins with: more events than a first look brings along."""
SHOWN = b"".join(LINES)
STATIC = "a static page with the same text"
OURS_PLACE, BARE_PLACE = ".glass .xterm-rows", "pre"
NOTED = """
(([place, text]) => {
  const look = () => {
    if (document.querySelector(place)?.textContent.includes(text)) window.benchText = performance.now();
    else requestAnimationFrame(look);
  };
  look();
})(%s)
"""
"""From the navigation to the first frame that has the text in its place."""
TEXT_AT = """
() => new Promise(done => {
  const look = () => window.benchText ? done(window.benchText) : setTimeout(look, 5);
  look();
})
"""
LOADED_AT = "() => performance.getEntriesByType('navigation')[0].loadEventEnd"
WHOLE = "input[aria-label=Moment]:enabled"
"""The slider, once all that happened is there."""
WHOLE_AT = "() => performance.now()"
SLOW_MS = 300_000


class Opened(NamedTuple):
    """Milliseconds from the navigation."""

    load: float
    text: float
    whole: float | None = None


async def page(rig: Rig, sizes: Sizes, program: str) -> list[Figure]:
    """None where the dashboard cannot be built, which is said."""
    if not await asyncio.to_thread(ensure_built, lambda words: rig.progress.console.print(words, markup=False)):
        return []
    sandbox = new_id("sb")
    await _write(rig, sandbox, sizes.page_events)
    async with (
        gateway_process(rig.settings) as process,
        static_page(rig.settings.data / "bench-page", SHOWN.decode()) as bare,
        browser(program) as opened,
    ):
        await _ours(opened, process, sandbox)
        ours: list[Opened] = []
        theirs: list[Opened] = []
        for _ in rig.progress.track(range(sizes.rounds), description="page"):
            ours.append(await _ours(opened, process, sandbox))
            theirs.append(await _bare(opened, bare))
    return _figures(ours, theirs, sizes.page_events)


def _figures(ours: list[Opened], theirs: list[Opened], events: int) -> list[Figure]:
    what = f"page of a session of {events:,} events"
    pairs = list(zip(ours, theirs, strict=True))
    return [
        Figure(
            what=f"{what}, loaded",
            value=median([each.load for each in ours]),
            unit="ms",
            bare=median([each.load for each in theirs]),
            beside=STATIC,
            ratios=tuple(mine.load / other.load for mine, other in pairs),
        ),
        Figure(
            what=f"{what}, first text of the newest terminal",
            value=median([each.text for each in ours]),
            unit="ms",
            bare=median([each.text for each in theirs]),
            beside=STATIC,
            ratios=tuple(mine.text / other.text for mine, other in pairs),
        ),
        Figure(
            what=f"{what}, all of it there to slide over",
            value=median([each.whole for each in ours if each.whole is not None]),
            unit="ms",
        ),
    ]


async def _ours(opened: "Browser", process: GatewayProcess, sandbox: str) -> Opened:
    """Signed in before: the exchange of the token is no part of it."""
    origin = f"http://{HERE}:{process.port}"
    async with _visitor(opened) as visitor:
        begun = await visitor.request.post(f"{origin}/api/v1/session", data={"token": process.token})
        if not begun.ok:
            raise Unavailable(f"no session: {await begun.text()}")
        return await _visited(visitor, f"{origin}/#/sandboxes/{sandbox}/terminal", OURS_PLACE, whole=True)


async def _bare(opened: "Browser", address: str) -> Opened:
    async with _visitor(opened) as visitor:
        return await _visited(visitor, address, BARE_PLACE, whole=False)


@asynccontextmanager
async def _visitor(opened: "Browser") -> "AsyncIterator[BrowserContext]":
    """With nothing in the cache."""
    context = await opened.new_context(viewport={"width": 1360, "height": 850})
    context.set_default_timeout(SLOW_MS)
    try:
        yield context
    finally:
        await context.close()


async def _visited(visitor: "BrowserContext", address: str, place: str, *, whole: bool) -> Opened:
    shown = await visitor.new_page()
    await shown.add_init_script(NOTED % f'["{place}", "{LAST_LINE}"]')
    await shown.goto(address)
    async with asyncio.timeout(SLOW_MS / 1000):
        text = await shown.evaluate(TEXT_AT)
    load = await shown.evaluate(LOADED_AT)
    if not whole:
        return Opened(load, text)
    await shown.wait_for_selector(WHOLE)
    return Opened(load, text, await shown.evaluate(WHOLE_AT))


async def _write(rig: Rig, sandbox: str, events: int) -> None:
    """Straight into the log, and until the read model knows it: what is measured is looking at it."""
    journal = Journal(rig.admin, service="executor", node=ELSEWHERE)
    newest = list(_newest())
    session = itertools.chain(itertools.islice(facts(), events - len(newest)), newest)
    begun = datetime.datetime.now(datetime.UTC) - datetime.timedelta(milliseconds=events)
    async with OutStream(rig.admin) as out:
        for number in rig.progress.track(range(events), description="writing a long session"):
            time = begun + datetime.timedelta(milliseconds=number)
            written = journal.write(sandbox, next(session), id=f"{sandbox}.{number}", time=time)
            await out.send(written.subject, written.payload, written.id)
    last = (await reader.bounds(rig.admin)).last
    while (await rig.cloche.sandboxes()).applied_sequence < last:  # noqa: ASYNC110  nobody announces it
        await asyncio.sleep(LOOK_S)


def _newest() -> Iterator[Fact]:
    yield CommandStarted(exec=NEWEST, argv=("make", "all"), cwd="/workspace")
    offset = 0
    for line in LINES:
        packed = pack(line)
        yield CommandOutput(
            exec=NEWEST,
            stream=Stream.STDOUT,
            offset=offset,
            size=len(line),
            data=packed.data,
            encoding=packed.encoding,
        )
        offset += len(line)
    yield CommandCompleted(exec=NEWEST, exit=Exit(code=0), duration_ms=50.0, totals=Totals(stdout=len(SHOWN)))
