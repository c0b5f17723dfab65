"""Takes orders about nodes: drain this one, take another for gone."""

from collections.abc import Callable

from contracts.commands.node import DrainNode, LoseNode
from contracts.errors import Conflict, Invalid
from contracts.events import node as facts
from contracts.nodes import Standing
from infra.journal import Journal
from services.spawner.company import Company

CONFLICTS_TOLERATED = 8


class NodeOrders:
    def __init__(self, journal: Journal, company: Company, changed: Callable[[], None]) -> None:
        """`changed` is called when the log says something new of a node."""
        self._journal = journal
        self._company = company
        self._changed = changed

    async def obey(self, order: DrainNode | LoseNode, command: str, *, by: str) -> None:
        """As often as it is delivered. Raises `Invalid` for what makes no sense now."""
        for _ in range(CONFLICTS_TOLERATED):
            await self._company.look()
            try:
                if isinstance(order, DrainNode):
                    await self._drain(order, command, by)
                else:
                    await self._lose(order, command, by)
            except Conflict:
                continue
            self._changed()
            return
        raise Conflict("others keep telling of the node")

    async def _drain(self, order: DrainNode, command: str, by: str) -> None:
        node, standing = self._journal.node, self._company.own.standing
        is_draining = standing in (Standing.DRAINING, Standing.DRAINED)
        if order.cancel and is_draining:
            await self._company.log.tell(self._journal, node, facts.NodeResumed(node=node, by=by), command=command)
        elif not order.cancel and not is_draining:
            draining = facts.NodeDraining(node=node, reason=order.reason, grace_ms=order.grace_ms, by=by)
            await self._company.log.tell(self._journal, node, draining, command=command)

    async def _lose(self, order: LoseNode, command: str, by: str) -> None:
        """One that lives would be back at once, with everything that nobody has taken by then."""
        if order.node == self._journal.node:
            raise _lives(order.node)
        if self._company.log.get(order.node).standing is Standing.LOST:
            return
        if self._company.is_alive(order.node) and not (order.force and await self._company.misses_a_beat(order.node)):
            raise _lives(order.node)
        await self._company.tell_lost(order.node, order.reason, command=command, by=by)


def _lives(node: str) -> Invalid:
    instead = f"`cloche drain {node}` moves what it has; or stop it there first, with `cloche down`"
    return Invalid(f"node {node!r} shows signs of life: {instead}")
