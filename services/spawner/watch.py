"""Watches over the sandboxes of this node: deaths at once, limits every few seconds, at the start what was missed."""

import asyncio
import logging
from collections.abc import Mapping

from contracts.errors import (
    ClocheError,
    Conflict,
    Failure,
    SandboxNotFound,
    SandboxResourceLimitExceeded,
    SandboxTimeout,
)
from contracts.events.sandbox import SandboxStopped
from contracts.spec import Isolation
from contracts.state import SandboxState, Status
from infra import clock
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.sandbox.base import Provider, ProviderEvent
from infra.sandbox.base import SandboxState as Seen

logger = logging.getLogger(__name__)

ALIVE = frozenset({Status.RUNNING, Status.PAUSED})
SEEN_ALIVE = frozenset({Seen.RUNNING, Seen.PAUSED})
MB = 1024 * 1024


class Watch:
    def __init__(self, *, journal: Journal, lifecycles: Lifecycles, providers: Mapping[Isolation, Provider]) -> None:
        self._journal = journal
        self._lifecycles = lifecycles
        self._providers = providers
        self._unseen: set[str | None] = set()
        """Instances that are to be looked at once the log has them alive: they could not be, or died before it had."""

    async def deaths(self, provider: Provider) -> None:
        """For ever: a sandbox that died without being told to is stopped, with the cause."""
        async for event in provider.events():
            if event.kind == "died":
                await self._died(event)

    async def limits(self, every_s: float) -> None:
        """For ever: sandboxes beyond their disk or time are stopped, with the cause."""
        while True:
            for state in self._mine():
                if state.instance in self._unseen:
                    await self._look_at(state)
                    continue
                try:
                    await self._check(state)
                except (ClocheError, OSError) as error:
                    # A workspace is the sandbox's own: what it does there must not stop the watch over others.
                    logger.warning("%s: %s", state.sandbox, error)
            await asyncio.sleep(every_s)

    async def reconcile(self) -> None:
        """What the log says should be alive and is not (a reboot, a death while nobody looked) is stopped.

        What cannot be looked at now, for its engine is away, is looked at again by `limits`.
        """
        for state in self._mine():
            await self._look_at(state)

    async def _look_at(self, state: SandboxState) -> None:
        try:
            await self._reconcile(state)
        except (ClocheError, OSError) as error:
            self._unseen.add(state.instance)
            logger.warning("%s: %s", state.sandbox, error)
        else:
            self._unseen.discard(state.instance)

    async def _reconcile(self, state: SandboxState) -> None:
        provider = self._providers[state.isolation]
        seen = await provider.inspect(state.sandbox)
        if seen is not None and seen.state in SEEN_ALIVE and seen.instance == state.instance:
            return
        if seen is not None and seen.state is not Seen.STOPPED:
            # What does not answer may still be alive, and would go on unwatched.
            await provider.stop(state.sandbox, 0)
        detail = seen.detail if seen and seen.detail else "it was gone when the services came back"
        await self._stopped(state.sandbox, state.instance, SandboxNotFound(detail).failure())

    def is_full(self, most: int) -> bool:
        return len(self._mine()) >= most

    def _mine(self) -> list[SandboxState]:
        node = self._journal.node
        return [
            state
            for state in self._lifecycles
            if state.node == node and state.status in ALIVE and state.isolation in self._providers
        ]

    async def _died(self, event: ProviderEvent) -> None:
        failure = Failure(
            code="SANDBOX_DIED",
            message=f"the sandbox died: {event.detail or event.cause}",
            details={"cause": event.cause},
        )
        if not await self._stopped(event.sandbox, event.instance, failure):
            self._unseen.add(event.instance)

    async def _check(self, state: SandboxState) -> None:
        resources = state.spec.resources
        provider = self._providers[state.isolation]
        age_ms = (clock.now() - (state.started_at or state.created_at)).total_seconds() * 1000
        if age_ms > resources.timeout_ms:
            await self._end(provider, state, SandboxTimeout(f"it ran for its limit of {resources.timeout_ms} ms"))
            return
        used = (await provider.disk_usage(state.sandbox)).bytes
        if used > resources.disk_mb * MB:
            reason = f"its workspace holds {used // MB} MB, and {resources.disk_mb} are allowed"
            await self._end(provider, state, SandboxResourceLimitExceeded(reason, limit="disk"))

    async def _end(self, provider: Provider, state: SandboxState, reason: ClocheError) -> None:
        await provider.stop(state.sandbox, 0)
        await self._stopped(state.sandbox, state.instance, reason.failure())

    async def _stopped(self, sandbox: str, instance: str | None, failure: Failure) -> bool:
        """Unless somebody else has said so, or it is another life of the sandbox; False where the log has not this."""
        state = await self._journal.lifecycle(sandbox)
        if state is None or state.status not in ALIVE or state.instance != instance:
            return False
        stopped = SandboxStopped(reason=failure.message, failure=failure)
        try:
            await self._journal.move(sandbox, stopped, expected=state.lifecycle_sequence)
        except Conflict:
            logger.info("%s was moved by somebody else", sandbox)
        return True
