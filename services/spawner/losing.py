"""Nodes that are gone for good: noticed, said once, and what they had is recovered elsewhere. And the way back."""

import asyncio
import logging

from contracts.commands.sandbox import RecoverSandbox
from contracts.errors import ClocheError, Conflict, Failure
from contracts.events import node as facts
from contracts.events.sandbox import SandboxFailed, SandboxRecovering
from contracts.nodes import NodeRecord, Standing
from contracts.recovery import is_recovering
from contracts.spec import RestartPolicy
from contracts.state import SandboxState, Status
from contracts.subjects import ANY_NODE
from infra.bus.connection import Bus
from infra.client.orders import publish
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from services.spawner.company import Company
from services.spawner.room import LIVING, owners_in

logger = logging.getLogger(__name__)

AGAIN_S = 60.0
"""Until what nobody could recover is ordered again."""
NAMED = 1000


class Losing:
    def __init__(
        self, *, bus: Bus, journal: Journal, company: Company, lifecycles: Lifecycles, lost_after_s: float
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._company = company
        self._lifecycles = lifecycles
        self._lost_after_s = lost_after_s
        self._ordered: dict[tuple[str, int], float] = {}

    async def look(self) -> None:
        """After each look at the nodes. Raises `Unavailable`."""
        if self._company.own.standing is Standing.LOST:
            await self.come_back()
        for node in sorted(owners_in(self._lifecycles) - {self._journal.node}):
            record = self._company.log.get(node)
            if record.standing is Standing.LOST:
                await self._recover_all(record)
            elif self._lost_after_s and self._company.silent_s(node) > self._lost_after_s:
                reason = f"no sign of life for {self._company.silent_s(node):.0f} s"
                try:
                    await self._company.tell_lost(node, reason)
                except Conflict:
                    continue
                await self._recover_all(self._company.log.get(node))

    async def come_back(self) -> None:
        """This node was taken for gone. What others have by now is theirs; `Leftovers` removes it from here."""
        node = self._journal.node
        taken = [state.sandbox for state in self._lifecycles if state.node != node and node in state.former_nodes]
        try:
            await self._company.log.tell(
                self._journal, node, facts.NodeReturned(node=node, gave_up=tuple(sorted(taken)[:NAMED]))
            )
        except Conflict as error:
            logger.info("said later: %s", error.message)

    async def _recover_all(self, record: NodeRecord) -> None:
        """By one of those who are left: it need not be the one who noticed."""
        first = min([self._journal.node, *(each.name for each in self._company.others())])
        if first != self._journal.node:
            return
        now = asyncio.get_running_loop().time()
        for state in [each for each in self._lifecycles if each.node == record.node and each.status in LIVING]:
            if now - self._ordered.get((state.sandbox, record.since), -AGAIN_S) < AGAIN_S:
                continue
            self._ordered[state.sandbox, record.since] = now
            try:
                await self._recover(state, record)
            except ClocheError as error:
                logger.warning("%s of lost node %s: %s", state.sandbox, record.node, error.message)

    async def _recover(self, state: SandboxState, record: NodeRecord) -> None:
        reason = f"node {record.node} is lost: {record.reason}"[:1000]
        if state.status == Status.CREATING and not state.created:
            await self._fail(state, reason)
        elif state.spec.restart.policy is RestartPolicy.NEVER:
            await self._take_and_fail(state, reason)
        else:
            await publish(self._bus, ANY_NODE, state.sandbox, _order(state, record, reason))

    async def _take_and_fail(self, state: SandboxState, reason: str) -> None:
        """Nobody restarts it. It is this node's from here on, so that its commands end, and a person may recover it."""
        claim = SandboxRecovering(attempt=0, reason=reason, node=self._journal.node)
        await self._journal.move(state.sandbox, claim, expected=state.lifecycle_sequence)
        claimed = await self._journal.lifecycle(state.sandbox)
        if claimed is not None and is_recovering(claimed) and claimed.node == self._journal.node:
            await self._fail(claimed, f"{reason}; its restart policy is never")

    async def _fail(self, state: SandboxState, reason: str) -> None:
        failure = Failure(code="SANDBOX_DIED", message=reason, details={"cause": "node_lost"})
        fact = SandboxFailed(failure=failure)
        command = state.requested_by if not state.created else None
        await self._journal.move(state.sandbox, fact, expected=state.lifecycle_sequence, command=command)


def _order(state: SandboxState, record: NodeRecord, reason: str) -> RecoverSandbox:
    """For this life of it; or, where it is between two, for this attempt to begin the next. Void when its node is back:
    it may come long after, and what it is for goes on there.
    """
    if is_recovering(state) or state.instance is None:
        between = state.lifecycle_sequence
        return RecoverSandbox(reason=reason, lifecycle_sequence=between, lost_sequence=record.since)
    return RecoverSandbox(reason=reason, instance=state.instance, lost_sequence=record.since)
