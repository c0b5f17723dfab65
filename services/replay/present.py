"""Answers about sandboxes as they are, and about what the log says of them."""

from collections import deque

import msgspec

from contracts import codec, subjects
from contracts.errors import Invalid, SandboxNotFound
from contracts.events.command import CommandInput, CommandOutput, Stream
from contracts.queries import (
    EventList,
    GetSandbox,
    GetTerminal,
    ListEvents,
    ListSandboxes,
    LoggedEvent,
    SandboxList,
    Terminal,
    TerminalChunk,
)
from contracts.state import SandboxState
from infra.bus import reader
from infra.bus.connection import Bus
from infra.log.lacking import lacking
from infra.log.live import LiveView
from services.replay.handlers import Answers
from services.replay.projection import PAGE_BYTES, Projection

FIRST_LOOK_BACK = 256


class Present:
    def __init__(self, bus: Bus, projection: Projection) -> None:
        self._bus = bus
        self._projection = projection

    def answers(self) -> Answers:
        return {
            "sandboxes": self._sandboxes,
            "sandbox": self._sandbox,
            "events": self._events,
            "terminal": self._terminal,
        }

    async def _sandboxes(self, query: ListSandboxes) -> SandboxList:
        return self._projection.list(query)

    async def _sandbox(self, query: GetSandbox) -> SandboxState:
        return self._known(query.sandbox)

    def _known(self, sandbox: str) -> SandboxState:
        state = self._projection.get(sandbox)
        if state is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
        return state

    async def _events(self, query: ListEvents) -> EventList:
        start = max(query.from_sequence, self._known(query.sandbox).first_sequence)
        filters = subjects.typed(query.sandbox, query.types)
        found: list[LoggedEvent] = []
        size = 0
        async for entry in reader.read(self._bus, filters, start, follow=False):
            size += len(entry.data)
            if len(found) == query.limit or (found and size > PAGE_BYTES):
                last = found[-1].sequence
                lost = await lacking(LiveView(self._bus), start, last)
                return EventList(events=tuple(found), next_sequence=last + 1, more=True, lacking=lost)
            found.append(LoggedEvent(sequence=entry.seq, event=msgspec.Raw(entry.data)))
        after = found[-1].sequence + 1 if found else start
        lost = await lacking(LiveView(self._bus), start)
        return EventList(events=tuple(found), next_sequence=after, more=False, lacking=lost)

    async def _terminal(self, query: GetTerminal) -> Terminal:
        state = self._known(query.sandbox)
        exec_id = query.exec or _last_started(state)
        scope = subjects.events_of(query.sandbox, family="command", scope=exec_id)[0]
        first, last = await reader.first(self._bus, scope), await reader.last(self._bus, scope)
        if first is None or last is None:
            raise Invalid(f"sandbox {query.sandbox!r} has no command {exec_id!r}")
        chunks, start = await self._tail(scope, first.seq, last.seq, query.max_bytes)
        return Terminal(
            exec=exec_id,
            chunks=tuple(chunks),
            truncated=start > first.seq,
            next_sequence=last.seq + 1,
            lacking=await lacking(LiveView(self._bus), first.seq, last.seq),
        )

    async def _tail(self, scope: str, first: int, last: int, budget: int) -> tuple[list[TerminalChunk], int]:
        """The newest chunks within the budget: looks back in growing steps, so old output costs nothing."""
        span = FIRST_LOOK_BACK
        while True:
            start = max(first, last - span)
            kept: deque[tuple[int, TerminalChunk]] = deque()
            size, dropped = 0, False
            async for entry in reader.read(self._bus, [scope], start, follow=False, end=last):
                chunk = _chunk(entry.seq, entry.data)
                if chunk is None:
                    continue
                kept.append((len(chunk.data), chunk))
                size += len(chunk.data)
                while size > budget and len(kept) > 1:
                    size -= kept.popleft()[0]
                    dropped = True
            if dropped or start == first:
                oldest = kept[0][1].sequence if kept and dropped else first
                return [chunk for _, chunk in kept], oldest
            span *= 4


def _last_started(state: SandboxState) -> str:
    commands = [*state.recent, *state.running.values()]
    if not commands:
        raise Invalid(f"no command was run in sandbox {state.sandbox!r} yet")
    return max(commands, key=lambda command: command.first_sequence).exec


def _chunk(sequence: int, raw: bytes) -> TerminalChunk | None:
    """None for what is none, or cannot be read."""
    try:
        fact = codec.decode_fact(codec.decode_head(raw))
    except Invalid:
        return None
    match fact:
        case CommandOutput():
            kind = "error" if fact.stream == Stream.STDERR else "output"
        case CommandInput():
            kind = "input"
        case _:
            return None
    return TerminalChunk(sequence=sequence, kind=kind, data=fact.data, encoding=fact.encoding)
