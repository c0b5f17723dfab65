"""Whether anything happens in a sandbox, by what the log says."""

from typing import NamedTuple

from contracts import codec, runs, subjects
from contracts.errors import Invalid
from contracts.runs import RunState, RunStatus
from contracts.state import SandboxState
from infra import clock
from infra.bus import page, reader
from infra.bus.connection import Bus

FAMILIES = ("command", "tool", "agent", "user")
FILE_KINDS = ("created", "modified", "deleted", "moved", "batch")
"""Not what the watcher says of itself."""
ENDS = ("completed", "timed_out", "cancelled", "lost", "rejected")
RUN_KINDS = ("started", "attached", "waiting", "delivered", "paused", "resumed", "completed", "error")
"""What tells whether an agent is in the middle of a turn."""


class _Running(NamedTuple):
    since: int
    """The life that this is of, by the sequence that it began at."""
    cursor: int
    commands: frozenset[str]


class _Runs(NamedTuple):
    cursor: int
    known: tuple[RunState, ...]


class _Last(NamedTuple):
    sequence: int
    at: float
    asked: float


class Activity:
    """Moments are of the steady clock."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._last: dict[str, _Last] = {}
        self._running: dict[str, _Running] = {}
        self._runs: dict[str, _Runs] = {}

    async def last(self, state: SandboxState) -> float:
        """When something last happened: an order, a command, output, a changed file, a tool call, an agent's turn.

        What is new since this was last asked is no older than that, whatever the clocks say. Raises `Unavailable` when
        the log cannot be asked.
        """
        asked = clock.steady()
        found = await page.fetch_lasts(
            self._bus, [subjects.event(state.sandbox, f"file.{kind}") for kind in FILE_KINDS]
        )
        for family in FAMILIES:
            newest = await reader.last(self._bus, subjects.events_of(state.sandbox, family=family)[0])
            found += [] if newest is None else [newest]
        told = [(each.seq, each.time) for each in found]
        sequence, time = max([(state.applied_sequence, state.last_event_at), *told])
        known = self._last.get(state.sandbox)
        if known is None:
            known = _Last(sequence, clock.steady_at(time), asked)
        elif sequence != known.sequence:
            # A lower one is new, too: a log that has lost its end gives its sequences again.
            known = _Last(sequence, max(clock.steady_at(time), known.asked), asked)
        self._last[state.sandbox] = known = known._replace(asked=asked)
        return known.at

    async def commands_run(self, state: SandboxState, since: int) -> bool:
        """Whether a command of the life that began at sequence `since` has not ended, or an agent is in a turn.

        An agent that waits for the next message is not, and its program is no command that runs. Raises `Unavailable`.
        """
        opened = [run for run in await self._agents(state) if run.is_open]
        if any(run.status != RunStatus.WAITING for run in opened):
            return True
        return bool(await self._commands(state, since) - {run.process for run in opened})

    async def _agents(self, state: SandboxState) -> tuple[RunState, ...]:
        cursor, known = self._runs.get(state.sandbox, _Runs(state.first_sequence, ()))
        kinds = [subjects.events_of(state.sandbox, family="agent", kind=kind)[1] for kind in RUN_KINDS]
        async for entry in reader.read(self._bus, kinds, cursor, follow=False):
            cursor = entry.seq + 1
            try:
                head = codec.decode_head(entry.data)
                fact = codec.decode_fact(head)
            except Invalid:
                continue
            if fact is not None:
                known = runs.apply_all(known, entry.seq, head, fact)
        self._runs[state.sandbox] = _Runs(cursor, known)
        return known

    async def _commands(self, state: SandboxState, since: int) -> frozenset[str]:
        known = self._running.get(state.sandbox)
        if known is None or known.since != since:
            known = _Running(since, since + 1, frozenset())
        commands, cursor = set(known.commands), known.cursor
        kinds = [subjects.events_of(state.sandbox, family="command", kind=kind)[1] for kind in ("started", *ENDS)]
        async for entry in reader.read(self._bus, kinds, cursor, follow=False):
            subject = subjects.parse_event(entry.subject)
            cursor = entry.seq + 1
            if subject.scope is not None:
                (commands.add if subject.kind == "started" else commands.discard)(subject.scope)
        self._running[state.sandbox] = _Running(since, cursor, frozenset(commands))
        return frozenset(commands)

    def forget(self, sandbox: str) -> None:
        self._last.pop(sandbox, None)
        self._running.pop(sandbox, None)
        self._runs.pop(sandbox, None)
