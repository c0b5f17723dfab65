"""What runs in a sandbox only because of a run, found by the log: also what an earlier life of this service began."""

import asyncio
import collections
import logging
import signal
from collections.abc import Iterable

from contracts import codec, subjects
from contracts.commands.command import Scope, SignalCommand
from contracts.errors import Invalid
from contracts.events.command import CommandOutput
from contracts.proof import TERMINAL
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.orders import publish
from services.agent.names import belongs, is_program
from services.agent.sizes import cut

logger = logging.getLogger(__name__)

MOST = 200
"""Commands that are looked at, the newest: those before them ended before the next began."""
GRACE_MS = 2000
PATIENCE_S = 10.0


class Leavings:
    def __init__(self, bus: Bus, *, node: str, sandbox: str, run: str, start: int) -> None:
        """`start`: where the run begins."""
        self._bus = bus
        self._node = node
        self._sandbox = sandbox
        self._run = run
        self._start = start

    async def clear(self, reason: str, ordered: Iterable[str] = ()) -> None:
        """All of it ends: what the commands started at once, they themselves after a grace at the latest.

        `ordered`: commands that were asked for and may not have begun. A sandbox's orders are taken in their order, so
        each of them begins and ends, or never begins.

        Returns when it has, or after a while where the sandbox does not answer: then it ends once it does.
        """
        waiting = [command for command in set(ordered) if not await self._has_ended(command)]
        left = list({*await self._running(), *waiting})
        for command in left:
            rest = SignalCommand(exec=command, signal=signal.SIGKILL, scope=Scope.REST)
            await publish(self._bus, self._node, self._sandbox, rest)
            end = SignalCommand(exec=command, cancel=True, grace_ms=GRACE_MS, reason=cut(reason, 1000).text)
            await publish(self._bus, self._node, self._sandbox, end)
        try:
            async with asyncio.timeout(PATIENCE_S):
                for command in left:
                    await self._ended(command)
        except TimeoutError:
            logger.warning("%s: commands of run %s do not end yet", self._sandbox, self._run)

    async def _running(self) -> list[str]:
        programs: list[str] = []
        begun: collections.deque[str] = collections.deque(maxlen=MOST)
        started = f"{subjects.event(self._sandbox, 'command.started')}.*"
        async for entry in reader.read(self._bus, [started], self._start, follow=False):
            command = subjects.parse_event(entry.subject).scope or ""
            if belongs(command, self._run):
                (programs if is_program(command) else begun).append(command)
        return [command for command in (*programs, *begun) if not await self._has_ended(command)]

    async def _has_ended(self, command: str) -> bool:
        newest = await self._newest(command)
        return newest is not None and _ends(newest)

    async def _ended(self, command: str) -> None:
        newest = await self._newest(command)
        start = self._start if newest is None else newest.seq
        async for entry in reader.read(self._bus, self._of(command), start, follow=True):
            if _ends(entry):
                return

    async def _newest(self, command: str) -> reader.Entry | None:
        (events,) = self._of(command)
        return await reader.patiently(self._bus, lambda bus: reader.last(bus, events))

    def _of(self, command: str) -> list[str]:
        return subjects.events_of(self._sandbox, family="command", scope=command)


def _ends(entry: reader.Entry) -> bool:
    """Or comes after the end: what background processes write."""
    try:
        fact = codec.decode_fact(codec.decode_head(entry.data))
    except Invalid:
        return False
    after = isinstance(fact, CommandOutput) and fact.after_exit
    return after or subjects.parse_event(entry.subject).kind in TERMINAL
