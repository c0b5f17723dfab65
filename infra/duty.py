"""A service of which several nodes together run one: the others stand by, and one takes over when it is gone."""

import asyncio
import contextlib
import logging
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from contracts import subjects
from contracts.errors import ClocheError, Conflict, Unavailable
from contracts.streams import VITALS_STREAM
from infra.access import open_as
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.publisher import Expect, append
from infra.ids import new_id
from infra.service import App, Ready
from infra.settings import Settings

logger = logging.getLogger(__name__)

RENEW_S = 3.0
SAY_S = 3.0
GIVE_UP_S = 12.0
"""Whoever cannot say for so long that it is on duty is not."""
TAKE_OVER_S = 20.0
"""Who has said nothing for so long is not on duty any more, as others see it: later than it knows itself."""


class Held(Struct, frozen=True, kw_only=True):
    """The newest message of a duty. Nobody's where it was laid down."""

    node: str | None


@runtime_checkable
class StandsBy(Protocol):
    """A service that has something to do, too, while the one of another node is on duty."""

    async def stand_by(self) -> None:
        """Runs until cancelled, or until nothing is left to do."""
        ...


class OnDuty:
    """Serves while this node is on duty. Ready as soon as it is known who is."""

    def __init__(self, app: App, settings: Settings) -> None:
        self.name = app.name
        self._app = app
        self._settings = settings
        self._subject = subjects.duty_vitals(app.name)
        self._sequence = 0

    async def serve(self, ready: Ready) -> None:
        async with open_as(self._settings, "spawner") as bus:
            while True:
                await self._wait(bus, ready)
                logger.info("%s: on duty", self.name)
                await self._on_duty(bus, ready)

    async def _wait(self, bus: Bus, ready: Ready) -> None:
        """Returns when it is this node's. Raises `Unavailable`."""
        standing = asyncio.ensure_future(self._stand_by())
        try:
            await self._take(bus, ready)
        finally:
            standing.cancel()
            await asyncio.gather(standing, return_exceptions=True)

    async def _stand_by(self) -> None:
        """Again and again where it fails: that must not keep this node from taking over."""
        while isinstance(self._app, StandsBy):
            # First, since most of those who are on duty never stood by.
            await asyncio.sleep(RENEW_S)
            try:
                await self._app.stand_by()
                break
            except Exception:
                logger.exception("%s: stands by without being prepared, later again", self.name)

    async def _take(self, bus: Bus, ready: Ready) -> None:
        loop = asyncio.get_running_loop()
        seen, since = -1, loop.time()
        while True:
            sequence, holder = await self._newest(bus)
            if sequence != seen:
                seen, since = sequence, loop.time()
            if holder in (None, self._settings.node) or loop.time() - since > TAKE_OVER_S:
                self._sequence = sequence
                with contextlib.suppress(Conflict):
                    await self._say(bus, self._settings.node)
                    return
            else:
                ready()
                await asyncio.sleep(RENEW_S)

    async def _newest(self, bus: Bus) -> tuple[int, str | None]:
        entry = await page.fetch_last(bus, self._subject, stream=VITALS_STREAM)
        if entry is None:
            return 0, None
        try:
            return entry.seq, msgspec.json.decode(entry.data, type=Held).node
        except msgspec.MsgspecError:
            return entry.seq, None

    async def _say(self, bus: Bus, node: str | None) -> None:
        """Raises `Conflict` when somebody else has said something, `Unavailable`."""
        held = msgspec.json.encode(Held(node=node))
        guard = Expect(self._subject, self._sequence)
        stored = await append(
            bus, self._subject, held, new_id("duty"), expect=guard, timeout_s=SAY_S, stream=VITALS_STREAM
        )
        self._sequence = stored.seq

    async def _on_duty(self, bus: Bus, ready: Ready) -> None:
        """Until somebody else is. Raises what the service raises."""
        serving = asyncio.ensure_future(self._app.serve(ready))
        try:
            await self._keep(bus, serving)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            with contextlib.suppress(ClocheError):
                await self._say(bus, None)

    async def _keep(self, bus: Bus, serving: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        said = loop.time()
        while not serving.done():
            await asyncio.wait([serving], timeout=RENEW_S)
            try:
                await self._say(bus, self._settings.node)
                said = loop.time()
            except Conflict:
                logger.warning("%s: another node is on duty", self.name)
                return
            except Unavailable as error:
                if loop.time() - said > GIVE_UP_S:
                    logger.warning("%s: off duty: %s", self.name, error.message)
                    return
        serving.result()
