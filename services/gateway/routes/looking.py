"""A sandbox as it is now, and what happened last in it."""

import datetime
from collections import deque

import msgspec

from contracts import subjects
from contracts.errors import SandboxNotFound, Unavailable
from contracts.http.sandboxes import SandboxDetail
from contracts.queries import GetSandbox, LoggedEvent
from contracts.state import SandboxState
from infra.bus import reader
from infra.bus.page import Entry
from infra.client.asking import ask
from infra.client.past import state_at
from infra.client.sandbox import Sandbox
from infra.client.vitals import newest
from infra.log.choosing import view_of
from infra.log.lacking import lacking
from infra.log.view import LogView
from services.gateway.desk import Desk

FIRST_LOOK_BACK = 256
LOOK_BACK_AGAIN = 4
MOST_BYTES = 4 << 20
"""Of the last events in one answer."""
_json = msgspec.json.Decoder(msgspec.Raw)


async def looked_at(desk: Desk, sandbox: Sandbox, events: int) -> SandboxDetail:
    """Raises `Unavailable`."""
    view = await view_of(desk.bus, sandbox.id)
    head = (await reader.bounds(desk.bus)).last
    last = await last_events(view, sandbox, events) if events else []
    return SandboxDetail(
        sandbox=await present(desk, sandbox),
        events=tuple(map(logged, last)),
        lacking=await lacking(view, last[0].seq, head) if last else (),
        last_heartbeat_at=await _beat_at(desk, sandbox.id),
        head_sequence=head,
    )


async def _beat_at(desk: Desk, sandbox: str) -> datetime.datetime | None:
    """Signs of life are never part of the truth: without them everything else is told."""
    try:
        known = await newest(desk.bus, [sandbox])
    except Unavailable:
        return None
    return known[sandbox].beat_at if sandbox in known else None


async def present(desk: Desk, sandbox: Sandbox) -> SandboxState:
    """With its commands, its runs, its health: as the read model has it, unless the log knows better.

    Where nobody answers it is what its lifecycle alone tells.
    """
    known = sandbox.state
    try:
        state: SandboxState = await ask(
            desk.bus, subjects.state_rpc("sandbox"), GetSandbox(sandbox=sandbox.id), SandboxState
        )
        if state.lifecycle_sequence >= known.lifecycle_sequence:
            return state
    except SandboxNotFound:
        pass
    except Unavailable:
        return known
    return (await state_at(desk.bus, sandbox.id)).state


async def last_events(view: LogView, sandbox: Sandbox, count: int) -> list[Entry]:
    """Oldest first, fewer where they are large. Looks back in growing steps: a page of the log is read, not all."""
    everything = subjects.events_of(sandbox.id)
    newest = await view.last(everything[0])
    if newest is None:
        return []
    span = max(FIRST_LOOK_BACK, 2 * count)
    while True:
        start = max(sandbox.state.first_sequence, newest.seq - span)
        kept = _Last(count)
        async for entry in view.read(everything, start, end=newest.seq):
            kept.append(entry)
        if kept.is_full or start == sandbox.state.first_sequence:
            return list(kept.entries)
        span *= LOOK_BACK_AGAIN


class _Last:
    """So many entries, and no more than an answer should hold; one in any case."""

    def __init__(self, count: int) -> None:
        self.entries: deque[Entry] = deque()
        self.is_full = False
        self._count = count
        self._bytes = 0

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._bytes += len(entry.data)
        while len(self.entries) > self._count or (self._bytes > MOST_BYTES and len(self.entries) > 1):
            self._bytes -= len(self.entries.popleft().data)
            self.is_full = True
        self.is_full = self.is_full or len(self.entries) == self._count


def logged(entry: Entry) -> LoggedEvent:
    """Verbatim; null for what is no JSON, which a log that came from elsewhere may have."""
    try:
        return LoggedEvent(sequence=entry.seq, event=_json.decode(entry.data))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return LoggedEvent(sequence=entry.seq, event=msgspec.Raw(b"null"))
