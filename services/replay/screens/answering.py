"""Answers what the terminal of a command showed at any sequence of the log, or at any time."""

import asyncio

from msgspec.structs import replace

from contracts import subjects
from contracts.errors import Invalid, SandboxNotFound
from contracts.past import GetStateAt, StateAt
from contracts.screens import GetScreen, Screen
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.log.choosing import view_of
from infra.log.lacking import lacking
from infra.log.view import LogView
from infra.moments import sequence_at
from infra.settings import Settings
from services.replay.past.store import SnapshotStore
from services.replay.screens.fitting import fitting_lines, newest_that_fit
from services.replay.screens.part import StateThen
from services.replay.screens.player import ScreenPlayer, Spacing, events_of
from services.replay.screens.playing import Played
from services.replay.screens.remembered import RememberedScreens, terminal_version

SHOWN_AT_ONCE = 8
"""Commands of a sandbox whose screens are given together."""
FIRST_LOOK = 256
"""Sequences that are looked through for a command that was started; then ever more."""


class ScreensInTime:
    def __init__(
        self,
        bus: Bus,
        settings: Settings,
        state_then: StateThen,
        spacing: Spacing = Spacing(),  # noqa: B008
    ) -> None:
        """Blocking: it tidies up what other versions have left."""
        self._bus = bus
        self._state_then = state_then
        directory = settings.data / "replay" / "screens"
        store = SnapshotStore(directory, terminal_version(), max_bytes=settings.replay.snapshot_bytes)
        store.clear_others()
        self._remembered = RememberedScreens(store)
        self._player = ScreenPlayer(self._remembered, spacing)

    async def forget(self) -> None:
        """Throws all that is remembered away: the log has it."""
        await asyncio.to_thread(self._remembered.clear)

    async def at(self, query: GetScreen) -> Screen:
        """Raises `SandboxNotFound`, `Invalid` (no such command, or it had not begun by then; the log does not reach so
        far), `Unavailable`.
        """
        if query.at is not None and query.time is not None:
            raise Invalid("a sequence and a time are two moments: name one")
        view = await view_of(self._bus, query.sandbox)
        first = await view.first(subjects.events_of(query.sandbox)[0])
        if first is None:
            raise SandboxNotFound(f"there is no sandbox {query.sandbox!r}")
        sequence = await self._sequence(view, query)
        exec_id = query.exec or await _last_started(view, query.sandbox, sequence)
        played = await self._played(view, query.sandbox, exec_id, sequence)
        screen = await asyncio.to_thread(_screen, played, exec_id, sequence, query.scrollback)
        return replace(screen, lacking=await lacking(view, first.seq, sequence))

    async def together(self, sandbox: str, sequence: int) -> tuple[Screen, ...]:
        """Of the last commands that ran then, and of the last that had ended; oldest first. Raises `Unavailable`."""
        try:
            then = await self._state_then(GetStateAt(sandbox=sandbox, at=max(sequence, 1)))
        except (SandboxNotFound, Invalid):
            return ()
        assert isinstance(then, StateAt)
        state = then.state
        commands = [*state.recent[-1:], *sorted(state.running.values(), key=lambda each: each.first_sequence)]
        view = await view_of(self._bus, sandbox)
        screens: list[Screen] = []
        for each in commands[-SHOWN_AT_ONCE:]:
            try:
                played = await self._played(view, sandbox, each.exec, sequence)
            except Invalid:
                continue
            screens.append(await asyncio.to_thread(_screen, played, each.exec, sequence, 0))
        return tuple(screens)

    async def _sequence(self, view: LogView, query: GetScreen) -> int:
        if query.time is not None:
            return await sequence_at(self._bus, query.sandbox, query.time)
        last = (await view.bounds()).last
        if query.at is not None and query.at > last:
            raise Invalid(f"the log ends at sequence {last}: nothing is known of {query.at}")
        return last if query.at is None else query.at

    async def _played(self, view: LogView, sandbox: str, exec_id: str, sequence: int) -> Played:
        first = await view.first(events_of(sandbox, exec_id))
        if first is None:
            raise Invalid(f"sandbox {sandbox!r} has no command {exec_id!r}: `cloche show {sandbox}` lists them")
        if first.seq > sequence:
            raise Invalid(f"command {exec_id!r} had not begun at sequence {sequence}: it did at {first.seq}")
        played = await self._player.at(view, sandbox, exec_id, sequence)
        if not played.began:
            raise Invalid(f"command {exec_id!r} never ran, so it had no screen")
        return played


async def _last_started(view: LogView, sandbox: str, sequence: int) -> str:
    started = subjects.events_of(sandbox, family="command", kind="started")[1]
    newest = await view.last(started)
    look = FIRST_LOOK
    while newest is not None and newest.seq > sequence:
        # The log has no way to look backwards from a sequence, so ever longer stretches before it are read.
        earlier = await _last_of(view, started, max(sequence - look, 1), sequence)
        if earlier is not None or look >= sequence:
            newest = earlier
        look *= 8
    scope = None if newest is None else subjects.parse_event(newest.subject).scope
    if scope is None:
        raise Invalid(f"no command had begun in sandbox {sandbox!r} at sequence {sequence}")
    return scope


async def _last_of(view: LogView, filter_: str, start: int, end: int) -> Entry | None:
    found: Entry | None = None
    async for entry in view.read([filter_], start, end=end):
        found = entry
    return found


def _screen(played: Played, exec_id: str, sequence: int, scrollback: int) -> Screen:
    emulator = played.emulator
    lines, whole = fitting_lines(emulator)
    above = emulator.scrollback(scrollback)
    kept = newest_that_fit(above, lines)
    cursor = emulator.cursor
    return Screen(
        exec=exec_id,
        sequence=sequence,
        pty=played.pty,
        cols=emulator.cols,
        rows=emulator.rows,
        lines=tuple(lines),
        scrollback=tuple(kept),
        cursor_x=cursor.x,
        cursor_y=cursor.y,
        cursor_hidden=cursor.hidden,
        title=emulator.title,
        alternate=emulator.alternate,
        bytes=played.bytes,
        ended=played.ended,
        truncated=len(kept) < len(above) or not whole,
    )
