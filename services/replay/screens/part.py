"""Screens in time as one thing, made when somebody asks for one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from contracts.screens import GetScreen, Screen
from infra.bus.connection import Bus
from infra.settings import Settings
from services.replay.handlers import Answers

if TYPE_CHECKING:
    from services.replay.screens.answering import ScreensInTime

StateThen = Callable[[Any], Awaitable[Struct]]
"""Answers `GetStateAt` with a `StateAt`."""


class Screens:
    def __init__(self, bus: Bus, settings: Settings, state_then: StateThen) -> None:
        self._bus = bus
        self._settings = settings
        self._state_then = state_then
        self._made: ScreensInTime | None = None
        self._making = asyncio.Lock()

    def answers(self) -> Answers:
        return {"screen": self.at}

    async def at(self, query: GetScreen) -> Screen:
        """Raises what `ScreensInTime.at` raises."""
        return await (await self._in_time()).at(query)

    async def together(self, sandbox: str, sequence: int) -> tuple[Screen, ...]:
        """Of the last commands that ran then, and of the last that had ended; oldest first. Raises `Unavailable`."""
        return await (await self._in_time()).together(sandbox, sequence)

    async def forget(self) -> None:
        """Throws all that is remembered away: the log has it."""
        await (await self._in_time()).forget()

    async def _in_time(self) -> "ScreensInTime":
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
            return self._made

    def _make(self) -> "ScreensInTime":
        # A terminal takes longer to import than a short command line to run, and few ask for one.
        from services.replay.screens.answering import ScreensInTime

        return ScreensInTime(self._bus, self._settings, self._state_then)
