"""Commands whose record nobody has any more: they end as lost, told by the node that has their sandbox now."""

import asyncio
import logging

from contracts import codec, subjects
from contracts.errors import ClocheError, Conflict
from contracts.events.command import CommandLost
from contracts.nodes import DRAINED
from contracts.proof import TERMINAL
from contracts.recovery import is_recovering
from contracts.state import SandboxState
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.freshness import STALE_S
from infra.bus.publisher import Expect, append
from infra.journal import Journal
from infra.observing.about import About, speaking_of
from services.executor.attachments import Attachments
from services.executor.outlet import published, totals_in_log
from services.executor.record import ORPHAN, key_of

logger = logging.getLogger(__name__)

GIVEN_WAY_S = STALE_S + 1.0
"""A node that is alive and has just lost the sandbox may be telling of its commands yet. One whose processes were
stopped for longer than `STALE_S` asks the log first."""
TRY_AGAIN_S = 1.0
CONFLICTS_TOLERATED = 8
CAUSE = "node_lost"
DRAINED_CAUSE = "node_drained"
DETAIL = 1000


class Orphans:
    """Looks at each sandbox that was recovered on this node: from another one, or after a loss of its disk.

    What the keeper of this node has is told from there. What the log has as running and no keeper of this node knows
    was held by one that this node cannot ask, and that does not speak for the sandbox any more.
    """

    def __init__(self, bus: Bus, journal: Journal, attachments: Attachments) -> None:
        self._bus = bus
        self._journal = journal
        self._attachments = attachments
        self._begun = clock.Moments()
        self._due: dict[str, float] = {}
        """By the steady clock."""
        self._all_ended_before: dict[str, int] = {}
        self._news = asyncio.Event()

    def notice(self, state: SandboxState) -> None:
        """The log has news of it."""
        is_ours = state.node == self._journal.node
        if is_ours and is_recovering(state) and state.recovery is not None:
            self._due[state.sandbox] = self._begun.steady_at(state.sandbox, state.recovery.begun_at) + GIVEN_WAY_S
            self._news.set()
            return
        self._begun.forget(state.sandbox)
        if not is_ours:
            self._due.pop(state.sandbox, None)

    async def end(self) -> None:
        """For ever. Survives anything that one sandbox's log does to it."""
        while True:
            self._news.clear()
            for sandbox in [each for each, due in self._due.items() if due <= clock.steady()]:
                await speaking_of(About(sandbox), self._try, sandbox)
            try:
                async with asyncio.timeout(self._wait_s()):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _wait_s(self) -> float | None:
        if not self._due:
            return None
        return max(min(self._due.values()) - clock.steady(), 0.0)

    async def _try(self, sandbox: str) -> None:
        due = self._due.pop(sandbox)
        try:
            await self._end_all(sandbox)
        except ClocheError as error:
            logger.warning("%s: its lost commands are told in a moment: %s", sandbox, error.message)
            self._due.setdefault(sandbox, max(due, clock.steady()) + TRY_AGAIN_S)

    async def _end_all(self, sandbox: str) -> None:
        state = await self._journal.lifecycle(sandbox)
        if state is None or state.node != self._journal.node:
            return
        start = max(self._all_ended_before.get(sandbox, 0), state.first_sequence)
        for exec_id in await self._open(sandbox, start):
            await self._attachments.ready.wait()
            if not self._attachments.has(key_of(sandbox, exec_id)):
                await self._tell_lost(state, exec_id)
        if not await self._open(sandbox, start):
            self._all_ended_before[sandbox] = state.lifecycle_sequence

    async def _open(self, sandbox: str, start: int) -> list[str]:
        """Commands that were started and have not ended, by the log."""
        running: dict[str, None] = {}
        kinds = [subjects.events_of(sandbox, family="command", kind=kind)[1] for kind in ("started", *sorted(TERMINAL))]
        async for entry in reader.read(self._bus, kinds, start, follow=False):
            subject = subjects.parse_event(entry.subject)
            if subject.scope is None:
                continue
            if subject.kind == "started":
                running[subject.scope] = None
            else:
                running.pop(subject.scope, None)
        return list(running)

    async def _tell_lost(self, state: SandboxState, exec_id: str) -> None:
        """Unless somebody tells of it meanwhile: whatever comes between is looked at first. Raises `Conflict`."""
        sandbox, why = state.sandbox, "" if state.recovery is None else state.recovery.reason
        whole = subjects.told_of(sandbox, exec_id)
        for _ in range(CONFLICTS_TOLERATED):
            last = await reader.last(self._bus, whole)
            if last is None or (await published(self._bus, sandbox, exec_id)).ended:
                return
            totals = await totals_in_log(self._bus, sandbox, exec_id)
            node = codec.decode_head(last.data).node
            detail = f"node {node}, which ran it, has lost the sandbox or the record of it: {why}"[:DETAIL]
            cause = DRAINED_CAUSE if why == DRAINED else CAUSE
            lost = CommandLost(exec=exec_id, cause=cause, detail=detail, totals=totals)
            written = self._journal.write(sandbox, lost, id=f"{sandbox}.{exec_id}.{ORPHAN}", command=exec_id)
            try:
                await append(self._bus, written.subject, written.payload, written.id, expect=Expect(whole, last.seq))
            except Conflict:
                continue
            return
        raise Conflict(f"others keep telling of command {exec_id!r}")
