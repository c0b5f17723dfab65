"""Interrupts: what is going on in a turn stops, and only then is it said that it has."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from services.agent.record import Interrupt
from services.agent.stage import Stage

GRACE_MS = 200
AGAIN_S = 0.1
"""A command that was about to begin is not yet among those that can be stopped."""

Result = TypeVar("Result")


class Halted(Exception):
    """The turn is over: nothing new is begun in it."""


class Halt:
    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def halted(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()

    async def unless(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Raises `Halted` when that comes first; the work is cancelled then."""
        doing, halting = asyncio.create_task(work), asyncio.create_task(self._event.wait())
        try:
            await asyncio.wait([doing, halting], return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise Halted
        finally:
            await _end(doing, halting)


class Interrupts:
    """As an async context manager it listens."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def __aenter__(self) -> Self:
        self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await _end(self._listening)

    def _listen(self) -> None:
        self._listening = asyncio.create_task(self._stage.steering.next_interrupt())

    async def during(self, turn: Coroutine[Any, Any, None], halt: Halt) -> list[Interrupt]:
        """Plays a turn to its end, or until it is interrupted; those that came are to be acknowledged.

        Raises what the turn raises.
        """
        playing, came = asyncio.create_task(turn), list[Interrupt]()
        try:
            while not playing.done():
                await asyncio.wait([playing, self._listening], return_when=asyncio.FIRST_COMPLETED)
                if self._listening.done():
                    came.append(self._take())
                    halt.set()
                    await self._stop(playing, came[-1].reason)
            playing.result()
            return came
        finally:
            await _end(playing)

    async def while_idle(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Between turns there is nothing to stop. One that comes as this ends is for the turn that begins."""
        doing = asyncio.create_task(work)
        try:
            while not doing.done():
                await asyncio.wait([doing, self._listening], return_when=asyncio.FIRST_COMPLETED)
                if self._listening.done() and not doing.done():
                    await self._stage.steering.acknowledge(self._take())
            return doing.result()
        finally:
            await _end(doing)

    async def rest(self) -> list[Interrupt]:
        """Those that are on record and were not given out yet."""
        await _end(self._listening)
        came = [] if self._listening.cancelled() else [self._listening.result()]
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0):
                    came.append(await self._stage.steering.next_interrupt())
        self._listen()
        return came

    def _take(self) -> Interrupt:
        interrupt = self._listening.result()
        self._listen()
        return interrupt

    async def _stop(self, playing: "asyncio.Task[None]", reason: str) -> None:
        commands, stopped = self._stage.commands, set[str]()
        while not playing.done():
            if running := commands.running.keys() - stopped:
                stopped |= running
                await commands.stop(f"interrupted: {reason}", grace_ms=GRACE_MS)
            await asyncio.wait([playing], timeout=AGAIN_S)


async def _end(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
