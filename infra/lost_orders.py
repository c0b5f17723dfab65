"""Orders for a node that is gone: somebody who is left answers them, so that nobody waits for ever."""

import asyncio
from collections.abc import Callable
from functools import partial

from contracts import codec, subjects
from contracts.nodes import Standing, lost_order
from contracts.state import SandboxState
from contracts.streams import ConsumerSpec
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.patience import patiently
from infra.bus.puller import Puller
from infra.bus.settle import GivenBack, settle
from infra.journal import Journal
from infra.nodes import NodeLog

PULL_S = 5.0
"""How long what is asked for may still be given to us when the node is back: it is handed on then."""


class LostOrders:
    """Takes the orders of one service for nodes that the log says are lost, and refuses each in a dead letter.

    Every node that is left does so, and it does not matter who takes which: a letter is the same whoever writes it. An
    order that came after the node was back is given to it.
    """

    def __init__(self, bus: Bus, journal: Journal, queue_of: Callable[[str], ConsumerSpec]) -> None:
        """`queue_of` tells the consumer by which this service takes the orders of a node."""
        self._bus = bus
        self._journal = journal
        self._queue_of = queue_of
        self._log = NodeLog(bus)
        self._news: dict[str, asyncio.Event] = {}

    async def answer(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as tasks:
            async for entry in reader.read(self._bus, [subjects.node_events()], 1, follow=True):
                node = subjects.parse_event(entry.subject).scope or ""
                if node not in self._news:
                    self._news[node] = asyncio.Event()
                    tasks.create_task(self._answer_for(node, self._news[node]))
                self._news[node].set()

    async def _is_lost(self, node: str) -> bool:
        """As the log has it now."""
        await patiently(self._bus, lambda _: self._log.read())
        return self._log.get(node).standing is Standing.LOST and node != self._journal.node

    async def _answer_for(self, node: str, news: asyncio.Event) -> None:
        while True:
            news.clear()
            if await self._is_lost(node):
                await self._until_back(node)
            else:
                await news.wait()

    async def _until_back(self, node: str) -> None:
        """No request is left behind that would be served before the node's own."""
        spec = self._queue_of(node)
        puller = Puller(self._bus, spec.stream, spec.durable)
        async with puller.open():
            while await self._is_lost(node):
                message = await puller.next_within(PULL_S)
                if message is not None:
                    refuse = partial(self._refuse, node)
                    await settle(self._bus, message, refuse, self._journal.dead_letter, ack_wait_s=spec.ack_wait_s)

    async def _refuse(self, node: str, subject: str, raw: bytes) -> None:
        """Returns where the log has the answer already. Raises `NodeIsLost`, `Invalid`, `GivenBack` if it is back."""
        if not await self._is_lost(node):
            raise GivenBack(0.0)
        head, _ = codec.decode_command(subject, raw)
        sandbox = subjects.parse_command(subject).sandbox
        state = await self._journal.lifecycle(sandbox)
        if not await self._is_answered(state, sandbox, head.id):
            raise lost_order(node, sandbox, state)

    async def _is_answered(self, state: SandboxState | None, sandbox: str, command: str) -> bool:
        """By the node itself, before it was lost."""
        if state is not None and command in state.obeyed:
            return True
        scope = subjects.events_of(sandbox, scope=command)[0]
        return await patiently(self._bus, lambda bus: reader.last(bus, scope)) is not None
