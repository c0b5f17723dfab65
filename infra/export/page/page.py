"""A session as one HTML page that needs nothing else: a player, a timeline, file diffs and search.

The page is static text (`page.html`, `page.css`, `page.js`) and data. Its policy lets exactly that script and that
style run; the data is JSON in elements that no browser executes, and the script puts all of it in as text.
"""

import base64
import datetime
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import cache
from importlib.resources import files

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.message import EventHead
from contracts.state import SandboxState, apply
from contracts.tape import Tape
from infra.bus import gaps
from infra.bus.gaps import Gap
from infra.bus.page import Entry
from infra.export.before import screen_before
from infra.export.commands import command_filters
from infra.export.page.frames import Frames
from infra.export.page.items import Items, lost, unreadable
from infra.export.page.records import Block, Record
from infra.export.page.time_line import TimeLine
from infra.log.view import LogView

MAX_IDLE_MS = 2000
Tell = Callable[[int], None]


async def page(
    view: LogView,
    sandbox: str,
    *,
    first: int = 1,
    last: int | None = None,
    exec_id: str | None = None,
    max_idle_ms: int = MAX_IDLE_MS,
    on_progress: Tell = lambda _: None,
) -> AsyncIterator[bytes]:
    """The page, piece by piece; no more than a few hundred events are held, and about a megabyte.

    `exec_id` has the player show that command alone. `on_progress` hears each sequence. Raises `Invalid` for a command
    that is not there, and what reading raises.
    """
    if exec_id is not None:
        await command_filters(view, sandbox, exec_id)
    yield _beginning()
    tape = Tape(exec_id)
    before = await screen_before(view, subjects.events_of(sandbox, family="command"), first, tape)
    session, block = _Session(tape, Frames(before), max_idle_ms), Block()
    async for entry in view.read(subjects.events_of(sandbox), first, end=last, on_gap=session.lack):
        block.add(session.feed(entry))
        on_progress(entry.seq)
        if block.is_full:
            yield block.take()
    block.add(session.close(sandbox))
    yield block.take()
    yield _end()


class _Session:
    """All that is told of one session, in one pass."""

    def __init__(self, tape: Tape, frames: Frames, max_idle_ms: int) -> None:
        self._tape = tape
        self._frames = frames
        self._items = Items()
        self._time = TimeLine(max_idle_ms)
        self._state: SandboxState | None = None
        self._lacking: list[Gap] = []
        self._stored_at: datetime.datetime | None = None

    def lack(self, gap: Gap) -> None:
        """It is told with what is fed next, or in the end."""
        gaps.warn(gap)
        self._lacking.append(gap)

    def _missing(self) -> list[Record]:
        found, self._lacking = self._lacking, []
        stored_at = self._stored_at
        return [] if stored_at is None else [lost(self._time.length_ms, stored_at, gap) for gap in found]

    def feed(self, entry: Entry) -> list[Record]:
        self._stored_at = entry.time
        missing = self._missing()
        try:
            head = codec.decode_head(entry.data)
        except Invalid:
            return [*missing, unreadable(self._time.length_ms, entry)]
        return [*missing, *self._told(entry.seq, head)]

    def _told(self, sequence: int, head: EventHead) -> list[Record]:
        at_ms = self._time.at(head.time)
        with suppress(Invalid):
            self._state = apply(self._state, sequence, head)
        try:
            fact = codec.decode_fact(head)
            records = self._items.feed(at_ms, sequence, head, fact)
        except Invalid:
            # Also what says that it is base64, and is not: it is shown as it stands.
            return self._items.feed(at_ms, sequence, head, None)
        if fact is not None:
            for frame in self._tape.feed(sequence, head, fact):
                records += self._frames.feed(at_ms, frame)
        return records

    def close(self, sandbox: str) -> list[Record]:
        meta = {
            "sandbox": sandbox,
            "facts": _facts(self._state),
            "length_ms": self._time.length_ms,
        }
        return [*self._missing(), *self._frames.close(), *self._items.close(), ["meta", meta]]


def _facts(state: SandboxState | None) -> list[str]:
    if state is None:
        return []
    spent = [f"${state.cost_usd:.4f}", f"{state.tokens} tokens"] if state.tokens else []
    return [
        f"{state.status}",
        f"{state.isolation} on node {state.node}",
        f"made {state.created_at:%Y-%m-%d %H:%M:%S} UTC",
        f"{state.commands} commands",
        *spent,
    ]


@cache
def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _beginning() -> bytes:
    style = _text("page.css")
    # Not by `format`: the template has other braces in it some day.
    page_text = _text("page.html")
    for name, value in (
        ("{script_hash}", _hash(_text("page.js"))),
        ("{style_hash}", _hash(style)),
        ("{style}", style),
    ):
        page_text = page_text.replace(name, value)
    return page_text.encode()


def _end() -> bytes:
    return f"<script>{_text('page.js')}</script>\n</body>\n</html>\n".encode()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
