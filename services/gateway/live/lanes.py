"""Orders of one client in their order, those of each kind by themselves: who waits for an agent can still type."""

import asyncio
from collections.abc import Awaitable, Callable

from services.gateway.live.frames import CommandFrame
from services.gateway.live.orders import PATIENCE_S, lane_of

WAITING = 32
"""In a lane. Whoever sends more is not read until there is room."""
WAITING_BYTES = 1 << 20
"""The same, for the payloads of those in a lane; one more may come on top."""


class Lanes:
    def __init__(self, group: asyncio.TaskGroup, carry_out: Callable[[CommandFrame, float], Awaitable[None]]) -> None:
        self._group = group
        self._carry_out = carry_out
        self._lanes: dict[str, _Lane] = {}

    async def put(self, frame: CommandFrame) -> None:
        """Raises `Invalid` for an order that is none."""
        name = lane_of(frame.command)
        if name not in self._lanes:
            self._lanes[name] = _Lane()
            self._group.create_task(self._work(self._lanes[name], PATIENCE_S[name]))
        await self._lanes[name].put(frame)

    async def _work(self, lane: "_Lane", patience_s: float) -> None:
        while True:
            frame = await lane.frames.get()
            await self._carry_out(frame, patience_s)
            lane.done(frame)


class _Lane:
    def __init__(self) -> None:
        self.frames: asyncio.Queue[CommandFrame] = asyncio.Queue(WAITING)
        self._bytes = 0
        self._room = asyncio.Event()

    async def put(self, frame: CommandFrame) -> None:
        while self._bytes > WAITING_BYTES:
            self._room.clear()
            await self._room.wait()
        self._bytes += len(bytes(frame.payload))
        await self.frames.put(frame)

    def done(self, frame: CommandFrame) -> None:
        self._bytes -= len(bytes(frame.payload))
        self._room.set()
