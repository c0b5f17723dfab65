"""Moves every sandbox off this node while it is being drained."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from contracts.commands.sandbox import RecoverSandbox
from contracts.errors import ClocheError, SandboxInvalidState
from contracts.events import node as facts
from contracts.events.sandbox import SandboxPaused, SandboxResumed
from contracts.message import Fact
from contracts.nodes import DRAINED, Standing
from contracts.spec import Isolation
from contracts.state import SandboxState, Status
from contracts.subjects import ANY_NODE
from infra.bus.connection import Bus
from infra.client.orders import publish
from infra.client.sandbox import Sandbox, settled
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.observing.about import About, speaking_of
from infra.sandbox.base import Provider
from services.spawner.company import Company
from services.spawner.flushing import Flushing
from services.spawner.forks import Forks
from services.spawner.room import LIVING, Room
from services.spawner.thawing import thaw_untold

logger = logging.getLogger(__name__)

AT_ONCE = 4
AGAIN_S = 15.0
"""Until what could not leave is tried again."""
IDLE_LOOK_S = 0.5
PATHS_TOLD = 5
REASON = 1000
BY = "drain"

Lane = Callable[[str], AbstractAsyncContextManager[object]]


class Draining:
    """Each sandbox is frozen, so that nothing changes behind the back of its record; its files are brought into the
    log; then whoever has room recovers it. One that nobody takes goes on here, and is tried again.
    """

    def __init__(
        self,
        *,
        bus: Bus,
        journal: Journal,
        company: Company,
        room: Room,
        lifecycles: Lifecycles,
        providers: Mapping[Isolation, Provider],
        flushing: Flushing,
        forks: Forks,
        lane: Lane,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._company = company
        self._room = room
        self._lifecycles = lifecycles
        self._providers = providers
        self._flushing = flushing
        self._forks = forks
        self._lane = lane
        self._places = asyncio.Semaphore(AT_ONCE)
        self._moved = 0
        self.changed = asyncio.Event()
        """To be set when the log says something new of this node."""

    async def keep(self) -> None:
        """For ever: whenever this node is to be drained, and after that whatever is on it all the same."""
        while True:
            self.changed.clear()
            is_done = False
            try:
                if self._gives_away:
                    await self._move_all()
                elif self._company.own.standing.takes_sandboxes:
                    is_done = await self._thaw_all()
            except (ClocheError, OSError) as error:
                logger.warning("the drain goes on later: %s", error)
            await self._pause(None if is_done else AGAIN_S)

    @property
    def _gives_away(self) -> bool:
        return self._company.own.standing.gives_away

    async def _pause(self, wait_s: float | None) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self.changed.wait()
        except TimeoutError:
            return

    async def _move_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            moves = [tasks.create_task(speaking_of(About(each), self._move, each)) for each in self._room.taken()]
        if not all(move.result() for move in moves) or self._room.taken():
            return
        record = self._company.own
        if record.standing is Standing.DRAINING or (record.standing is Standing.DRAINED and record.kept):
            await self._tell_drained()

    async def _tell_drained(self) -> None:
        node = self._journal.node
        stopped = [each.sandbox for each in self._lifecycles if each.node == node and each.status == Status.STOPPED]
        await self._tell(facts.NodeDrained(node=node, moved=self._moved, stopped=tuple(sorted(stopped))))
        self._moved = 0

    async def _move(self, sandbox: str) -> bool:
        """Whether it is no longer here. One that cannot be moved must not keep the others."""
        async with self._places:
            try:
                was_here = await self._leave(sandbox)
                has_left = not await self._is_mine(sandbox)
            except (ClocheError, OSError) as error:
                await self._kept(sandbox, str(error)[:REASON])
                return False
        self._moved += was_here and has_left
        return has_left

    async def _leave(self, sandbox: str) -> bool:
        """Whether it was here."""
        async with self._lane(sandbox):
            # What is being made is whole once whoever makes it lets go of it.
            state = await self._journal.lifecycle(sandbox)
        if state is None or state.node != self._journal.node or state.status not in LIVING:
            return False
        await self._until_idle(state)
        try:
            async with self._lane(sandbox):
                state = await self._frozen(sandbox)
            if state is None:
                return False
            await self._check_record(sandbox)
            order = RecoverSandbox(reason=DRAINED, lifecycle_sequence=state.lifecycle_sequence)
            await self._until_taken(state, await publish(self._bus, ANY_NODE, sandbox, order))
        except (ClocheError, OSError):
            async with self._lane(sandbox):
                await self._thaw(sandbox)
            if await self._is_mine(sandbox):
                raise
        return True

    async def _until_taken(self, state: SandboxState, command: str) -> None:
        """Raises the reason why nobody takes it, `SandboxInvalidState` when the drain is cancelled meanwhile: once it
        has moved on here, the order is void.
        """
        taken = asyncio.create_task(settled(self._bus, command, {Status.RUNNING, Status.REMOVED}, state))
        try:
            while not (await asyncio.wait({taken}, timeout=IDLE_LOOK_S))[0]:
                if not self._gives_away:
                    raise SandboxInvalidState("the drain was cancelled")
            await taken
        finally:
            taken.cancel()
            await asyncio.gather(taken, return_exceptions=True)

    async def _is_mine(self, sandbox: str) -> bool:
        state = await self._journal.lifecycle(sandbox)
        return state is not None and state.node == self._journal.node and state.status in LIVING

    async def _until_idle(self, state: SandboxState) -> None:
        """What runs in it may end by itself, as long as the grace lasts, and nobody has thought better of it."""
        grace_ms = self._company.own.grace_ms
        try:
            async with asyncio.timeout(grace_ms / 1000):
                while grace_ms and self._gives_away and self._company.own.grace_ms == grace_ms:
                    if not await Sandbox(self._bus, state).running():
                        return
                    await asyncio.sleep(IDLE_LOOK_S)
        except TimeoutError:
            return

    async def _frozen(self, sandbox: str) -> SandboxState | None:
        """Its state, now that nothing in it moves; None where it is not this node's to move any more."""
        state = await self._journal.lifecycle(sandbox)
        if state is None or state.node != self._journal.node or not self._gives_away:
            return None
        if state.status == Status.CREATING:
            raise SandboxInvalidState("it is still being made")
        if state.status == Status.RUNNING:
            await self._providers[state.isolation].pause(sandbox)
            return await self._append(state, SandboxPaused(by=BY))
        return state if state.status == Status.PAUSED else None

    async def _thaw(self, sandbox: str) -> None:
        """If it was frozen by us, whether or not we have come to say so. What a person paused stays so."""
        state = await self._journal.lifecycle(sandbox)
        if state is None or state.node != self._journal.node:
            return
        if state.status == Status.RUNNING:
            await thaw_untold(self._providers[state.isolation], sandbox)
        if state.status != Status.PAUSED:
            return
        paused = await self._journal.last(sandbox, "sandbox.paused")
        if not isinstance(paused, SandboxPaused) or paused.by != BY:
            return
        await self._providers[state.isolation].resume(sandbox)
        await self._append(state, SandboxResumed(by=BY))

    async def _thaw_all(self) -> bool:
        """What was frozen for a drain that was cancelled meanwhile. Whether nothing of it is left."""
        is_done = True
        for state in [each for each in self._room.mine() if each.status in (Status.PAUSED, Status.RUNNING)]:
            try:
                async with self._lane(state.sandbox):
                    await self._thaw(state.sandbox)
            except (ClocheError, OSError) as error:
                logger.warning("%s is looked at later, it may be frozen: %s", state.sandbox, error)
                is_done = False
        return is_done

    async def _append(self, state: SandboxState, fact: Fact) -> SandboxState | None:
        await self._journal.move(state.sandbox, fact, expected=state.lifecycle_sequence, command=None)
        return await self._journal.lifecycle(state.sandbox)

    async def _check_record(self, sandbox: str) -> None:
        """Everything in its workspace is in the log. Raises `SandboxInvalidState` for what is too large for that."""
        flushed = await self._flushing.snapshot(sandbox)
        lacking = await self._forks.not_kept(sandbox, flushed.sequence)
        if lacking:
            some = ", ".join(lacking[:PATHS_TOLD])
            words = f"{len(lacking)} files would be lost, they are only in its workspace (files.max_blob_bytes): {some}"
            raise SandboxInvalidState(words)

    async def _kept(self, sandbox: str, reason: str) -> None:
        logger.warning("%s cannot leave: %s", sandbox, reason)
        record = self._company.own
        if record.standing.gives_away and record.kept.get(sandbox) != reason:
            await self._tell(facts.NodeKept(node=self._journal.node, sandbox=sandbox, reason=reason))

    async def _tell(self, fact: Fact) -> None:
        try:
            await self._company.log.tell(self._journal, self._journal.node, fact)
        except ClocheError as error:
            logger.info("said later: %s", error.message)
            self.changed.set()
