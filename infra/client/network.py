"""A sandbox's way out, as a program outside sees and changes it."""

import datetime
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec

from contracts import approvals, codec, subjects
from contracts.approvals import Approvals
from contracts.commands.network import ApproveNetwork, RejectNetwork
from contracts.commands.sandbox import ChangeNetwork
from contracts.errors import Unavailable
from contracts.events.network import (
    NetworkAllowed,
    NetworkApproved,
    NetworkAsked,
    NetworkAttached,
    NetworkBatch,
    NetworkDenied,
    NetworkRejected,
    NetworkUnattached,
)
from contracts.events.sandbox import SandboxNetworkChanged
from contracts.message import Fact, Order
from contracts.spec import Network
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.orders import publish, raise_if_given_up
from infra.client.sandbox import load_state

Traffic = NetworkAllowed | NetworkDenied
Told = Traffic | NetworkAsked | NetworkApproved | NetworkRejected | NetworkAttached | NetworkUnattached


class Request(NamedTuple):
    """Something that the log tells of a sandbox's network. Requests of a batch come one by one."""

    sequence: int
    at: datetime.datetime
    fact: Told


class NetworkAccess:
    def __init__(self, bus: Bus, sandbox: str) -> None:
        self._bus = bus
        self._sandbox = sandbox

    async def policy(self) -> Network:
        """As it is now."""
        return (await load_state(self._bus, self._sandbox)).spec.network

    async def change(self, **changes: Any) -> Network:
        """Fields of `Network`; what is left out stays as it is. Returns it as it is from now on, for new requests.

        Connections that are no longer allowed are cut. Raises `Invalid` for a bad field and for mode `full`,
        `SandboxInvalidState` for one that is failed or removed.
        """
        fact = await self._order(
            ChangeNetwork(network=msgspec.Raw(codec.encode(changes))), subjects.lifecycle(self._sandbox)
        )
        assert isinstance(fact, SandboxNetworkChanged)
        return fact.network

    async def approve(self, approval: str, *, reason: str = "", remember: bool = False) -> None:
        """Let through what waits for this answer; from now on for as long as the sandbox exists, if `remember`.

        Raises `Invalid` for what was never asked, has expired, or was approved before.
        """
        order = ApproveNetwork(approval=approval, reason=reason, remember=remember)
        await self._order(order, subjects.event(self._sandbox, "network.approved"))

    async def reject(self, approval: str, *, reason: str = "", remember: bool = False) -> None:
        """Deny what waits for this answer, or take an approval back. Raises as `approve` does."""
        order = RejectNetwork(approval=approval, reason=reason, remember=remember)
        await self._order(order, subjects.event(self._sandbox, "network.rejected"))

    async def approvals(self) -> Approvals:
        """What waits for an answer, and the answers that hold."""
        found = Approvals()
        filters = [subjects.event(self._sandbox, f"network.{kind}") for kind in ("asked", "approved", "rejected")]
        async for entry in reader.read(self._bus, filters, 1, follow=False):
            head = codec.decode_head(entry.data)
            fact = codec.decode_fact(head)
            if fact is not None:
                found = approvals.apply(found, fact, head.time, head.correlationid)
        return found

    async def requests(self, start: int = 1, *, follow: bool = False) -> AsyncIterator[Request]:
        """What passed, what was denied, what was asked and answered, in the order of the log."""
        filters = subjects.events_of(self._sandbox, family="network")
        async for entry in reader.read(self._bus, filters, start, follow=follow):
            head = codec.decode_head(entry.data)
            fact = codec.decode_fact(head)
            for each in fact.requests if isinstance(fact, NetworkBatch) else (fact,):
                if isinstance(each, Told):
                    yield Request(entry.seq, head.time, each)

    async def _order(self, order: Order, answered_on: str) -> Fact:
        state = await load_state(self._bus, self._sandbox)
        begin = (await reader.bounds(self._bus)).last + 1
        command = await publish(self._bus, state.node, self._sandbox, order)
        letters = subjects.events_of(self._sandbox, family=subjects.DEAD_LETTER, scope=command)
        async for entry in reader.read(self._bus, [answered_on, *letters], begin, follow=True):
            head = codec.decode_head(entry.data)
            raise_if_given_up(head, command)
            fact = codec.decode_fact(head)
            if head.correlationid == command and fact is not None:
                return fact
        raise Unavailable("the log has ended")
