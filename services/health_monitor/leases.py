"""Orders that are due: each is sent until the log shows that it was taken."""

import asyncio
import datetime
import hashlib
import logging
from typing import NamedTuple

from contracts import codec, subjects
from contracts.commands.sandbox import RecoverSandbox, StopSandbox
from contracts.errors import ClocheError
from contracts.events.health import DeathAction, HealthDied
from contracts.message import Command
from contracts.registry import command_tag
from contracts.state import SandboxState
from contracts.streams import COMMANDS_STREAM
from infra import clock
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.lifecycles import Lifecycles
from services.health_monitor.decide import ALIVE, Excess, failure_of

logger = logging.getLogger(__name__)

AGAIN_S = 60.0
"""An order that was given up (a dead letter) is sent again; within the server's window it is the same one."""
REASON = 1000


class Lease(NamedTuple):
    instance: str | None
    order: RecoverSandbox | StopSandbox
    due: float
    """By the steady clock."""


class Leases:
    """Of lives, at most one each. All of them are in the log, so that the next monitor finds them again."""

    def __init__(self, bus: Bus, node: str, lifecycles: Lifecycles) -> None:
        self._bus = bus
        self._node = node
        self._lifecycles = lifecycles
        self._leases: dict[str, Lease] = {}
        self._news = asyncio.Event()
        self.sent = 0
        """Orders that the server has."""

    def of_death(self, state: SandboxState, died: HealthDied, told_at: datetime.datetime) -> None:
        order: RecoverSandbox | StopSandbox
        if died.action == DeathAction.RECOVER:
            order = RecoverSandbox(reason=f"{died.cause}: {died.detail}"[:REASON], instance=state.instance)
        else:
            failure = failure_of(died)
            order = StopSandbox(grace_ms=0, reason=failure.message[:REASON], instance=state.instance, failure=failure)
        wait_s = 0.0 if died.due is None else (died.due - told_at).total_seconds()
        self._put(state, order, clock.steady_at(told_at) + wait_s)

    def of_excess(self, state: SandboxState, excess: Excess) -> None:
        reason = excess.failure.message[:REASON]
        order = StopSandbox(grace_ms=excess.grace_ms, reason=reason, instance=state.instance, failure=excess.failure)
        self._put(state, order, clock.steady())

    def has(self, state: SandboxState) -> bool:
        lease = self._leases.get(state.sandbox)
        return lease is not None and lease.instance == state.instance

    def _put(self, state: SandboxState, order: RecoverSandbox | StopSandbox, due: float) -> None:
        if not self.has(state):
            self._leases[state.sandbox] = Lease(state.instance, order, due)
            self._news.set()

    async def keep(self) -> None:
        """For ever: each is sent when it is due, and dropped when the sandbox has moved on."""
        while True:
            self._news.clear()
            wait_s = AGAIN_S
            for sandbox, lease in list(self._leases.items()):
                wait_s = min(wait_s, await self._look_at(sandbox, lease))
            try:
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _look_at(self, sandbox: str, lease: Lease) -> float:
        """Seconds until it is to be looked at again."""
        state = self._lifecycles.get(sandbox)
        moved = state is None or state.status not in ALIVE or state.instance != lease.instance
        if moved or (state is not None and state.node != self._node):
            self._leases.pop(sandbox, None)
            return AGAIN_S
        wait_s = lease.due - clock.steady()
        if wait_s > 0:
            return wait_s
        await self._send(sandbox, lease)
        self._leases[sandbox] = lease._replace(due=clock.steady() + AGAIN_S)
        return AGAIN_S

    async def _send(self, sandbox: str, lease: Lease) -> None:
        tag = command_tag(lease.order)
        family, _, verb = tag.partition(".")
        command = Command(
            id=order_id(sandbox, lease.instance, verb),
            source=f"health_monitor/{self._node}",
            type=tag,
            time=clock.now(),
            sandboxid=sandbox,
            data=lease.order,
        )
        subject = subjects.command(self._node, sandbox, family, verb)
        try:
            await append(self._bus, subject, codec.encode(command), command.id, stream=COMMANDS_STREAM)
        except ClocheError as error:
            logger.warning("%s: the order to %s is sent again: %s", sandbox, verb, error.message)
            return
        self.sent += 1


def order_id(sandbox: str, instance: str | None, verb: str) -> str:
    """The same from every monitor, so that all of them together send one order."""
    life = hashlib.sha256(f"{sandbox}/{instance}/{verb}".encode()).hexdigest()[:32]
    return f"health-{verb}-{life}"
