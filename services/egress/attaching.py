"""One life of a sandbox, and what listens in it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import msgspec

from contracts.egress import PROXY_PORT, ROUTES_PORT
from contracts.errors import ClocheError, SandboxInvalidState, Unavailable
from contracts.events.network import NetworkAttached, NetworkUnattached
from contracts.message import Fact
from contracts.spec import Isolation
from contracts.state import SandboxState
from infra.ids import new_id
from infra.journal import Journal
from infra.netns.enter import ADDRESS
from infra.netns.entrance import Entered, Entrance
from infra.netns.errors import LifeIsOver
from infra.sandbox.base import Provider

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
REASON_CHARACTERS = 500

Serve = Callable[[SandboxState, Entered], AbstractAsyncContextManager[object]]
"""Serves what was opened in that life, for as long as the block lasts, by the policy of that state at first."""


class Tools(NamedTuple):
    journal: Journal
    providers: Mapping[Isolation, Provider]
    entrance: Entrance
    serve: Serve


class Attachment:
    """Run `keep` in a task."""

    def __init__(self, tools: Tools, state: SandboxState, instance: str) -> None:
        self._tools = tools
        self.instance = instance
        self.is_over = False
        """It is not tried any more."""
        self.learn(state)
        self._id = new_id("attach")
        self._tried = asyncio.Event()
        self._way: str | None = None
        self._trouble: ClocheError | None = None
        self._episodes = 0

    def learn(self, state: SandboxState) -> None:
        """What is served from now on is served as this state wants it."""
        self._state = msgspec.structs.replace(state, instance=self.instance)

    async def attached(self) -> str:
        """How its network namespace was reached, once that was tried. Raises why it could not be, so far."""
        await self._tried.wait()
        if self._trouble is not None:
            raise self._trouble
        if self._way is None:
            raise SandboxInvalidState(f"{self._state.sandbox} no longer wants to be attached")
        return self._way

    async def keep(self) -> None:
        """Until that life is over, or seems to be: then this returns, and never raises."""
        try:
            await self._keep()
        except LifeIsOver as error:
            self.is_over = True
            await self._has_failed(error)
        finally:
            self.is_over = True
            self._tried.set()

    async def _keep(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                await self._serve(await self._enter())
                return
            except LifeIsOver:
                raise
            except ClocheError as error:
                await self._has_failed(error)
            except OSError as error:
                await self._has_failed(Unavailable(f"the node refuses: {error}"))
            except Exception:
                # One sandbox that cannot be served must not stop the others.
                logger.exception("%s: a bug in serving it", self._state.sandbox)
                await self._has_failed(Unavailable("a bug in egress"))
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _enter(self) -> Entered:
        provider = self._tools.providers[self._state.isolation]
        return await self._tools.entrance.listen(provider, self._state.sandbox, self.instance, ports(self._state))

    async def _serve(self, entered: Entered) -> None:
        try:
            async with self._tools.serve(self._state, entered):
                self._way, self._trouble = entered.way, None
                self._tried.set()
                await self._tell(_attached(self.instance, entered), "attached")
                await entered.life_is_over()
        finally:
            entered.close()

    async def _has_failed(self, error: ClocheError) -> None:
        """Told once, and again only after it went well in between."""
        is_new = self._trouble is None
        self._trouble = error
        self._tried.set()
        if is_new:
            self._episodes += 1
            logger.warning("%s has no way out: %s", self._state.sandbox, error.message)
            fact = NetworkUnattached(instance=self.instance, reason=error.message[:REASON_CHARACTERS])
            await self._tell(fact, f"unattached.{self._episodes}")

    async def _tell(self, fact: Fact, what: str) -> None:
        written = self._tools.journal.write(self._state.sandbox, fact, id=f"{self._state.sandbox}.{self._id}.{what}")
        try:
            await self._tools.journal.append(written)
        except ClocheError as error:
            logger.error("%s: not told: %s", self._state.sandbox, error.message)  # noqa: TRY400


def ports(state: SandboxState) -> tuple[int, ...]:
    return (PROXY_PORT, ROUTES_PORT) if state.spec.secrets else (PROXY_PORT,)


def _attached(instance: str, entered: Entered) -> NetworkAttached:
    return NetworkAttached(
        instance=instance,
        way=entered.way,
        proxy=f"{ADDRESS}:{PROXY_PORT}",
        routes=f"{ADDRESS}:{ROUTES_PORT}" if ROUTES_PORT in entered.listeners else None,
    )
