"""Every sandbox's lifecycle, followed live from the log and kept in memory."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.state import SandboxState, Status, apply
from infra.bus import gaps, reader
from infra.bus.connection import Bus
from infra.bus.gaps import Gap
from infra.observing.lag import watch_lag
from infra.states import forgotten_states, state_of

logger = logging.getLogger(__name__)


class Lifecycles:
    """Run `follow` in a task; `get` is what the log said a moment ago, so confirm a surprise before acting on it."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._states: dict[str, SandboxState] = {}
        self._listeners: list[Callable[[SandboxState], None]] = []
        self._doubtful: set[str] = set()
        self._applied = 0
        self.caught_up = asyncio.Event()
        """Set once everything that was in the log at the start has been read."""

    def get(self, sandbox: str) -> SandboxState | None:
        return self._states.get(sandbox)

    def learn(self, state: SandboxState) -> None:
        """Take over what somebody has just read from the log."""
        known = self._states.get(state.sandbox)
        if known is None or known.applied_sequence < state.applied_sequence:
            self._states[state.sandbox] = state

    def on_change(self, call: Callable[[SandboxState], None]) -> None:
        """`call` with each new state as it is read, those of the past included. It must not raise or block."""
        self._listeners.append(call)

    def off_change(self, call: Callable[[SandboxState], None]) -> None:
        self._listeners.remove(call)

    def __iter__(self) -> Iterator[SandboxState]:
        return iter(list(self._states.values()))

    async def follow(self) -> None:
        """For ever, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            follower = f"{self._bus.service}-lifecycles"
            tasks.create_task(watch_lag(follower, self._bus, [subjects.lifecycle("*")], lambda: self._applied))
            await self._follow()

    async def _follow(self) -> None:
        for state in await forgotten_states(self._bus):
            self.learn(state)
            for call in list(self._listeners):
                call(state)
        filters = [subjects.lifecycle("*")]
        newest = await reader.last(self._bus, filters[0])
        head = newest.seq if newest else 0
        if not head:
            self.caught_up.set()
        async for entry in reader.read(self._bus, filters, 1, follow=True, on_gap=self._lack):
            await self._learn_again()
            self._apply(entry.seq, entry.data)
            self._applied = entry.seq
            if entry.seq >= head:
                self.caught_up.set()

    def _lack(self, gap: Gap) -> None:
        """What the log has lost was known, and its sequences may be given again to other events."""
        gaps.warn(gap)
        self._doubtful |= {state.sandbox for state in self if state.applied_sequence >= gap.first}

    async def _learn_again(self) -> None:
        while self._doubtful:
            sandbox = self._doubtful.pop()
            try:
                state = await state_of(self._bus, sandbox)
            except Invalid as error:
                logger.error("the life of %s cannot be read: %s", sandbox, error.message)  # noqa: TRY400
                continue
            self._states.pop(sandbox, None)
            if state is not None:
                self._take(state)

    def _apply(self, sequence: int, raw: bytes) -> None:
        try:
            head = codec.decode_head(raw)
            state = apply(self._states.get(head.sandboxid), sequence, head)
        except Invalid as error:
            logger.error("event %d cannot be read: %s", sequence, error.message)  # noqa: TRY400
            return
        if state is not None:
            self._take(state)

    def _take(self, state: SandboxState) -> None:
        for call in list(self._listeners):
            call(state)
        if state.status == Status.REMOVED:
            self._states.pop(state.sandbox, None)
        else:
            self._states[state.sandbox] = state
