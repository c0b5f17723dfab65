"""Tells those who wait for a sandbox what is being done about it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contracts import codec, subjects
from contracts.errors import Unavailable
from contracts.vitals import PROGRESS, Progress
from infra.bus.connection import Bus
from infra.sandbox.progress import listening

EVERY_S = 0.2
LINE = 500


class Reporter:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    @asynccontextmanager
    async def about(self, sandbox: str) -> AsyncIterator[None]:
        """What the provider says within goes out: the newest line of each moment, stored nowhere for long."""
        news: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        sending = asyncio.create_task(self._send(sandbox, news))

        def heard(line: str) -> None:
            loop.call_soon_threadsafe(news.put_nowait, line)

        try:
            with listening(heard):
                yield
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, sandbox: str, news: asyncio.Queue[str]) -> None:
        while True:
            line = await news.get()
            while not news.empty():
                line = news.get_nowait()
            try:
                await self._bus.tell(subjects.vitals(sandbox, PROGRESS), codec.encode(Progress(line=line[:LINE])))
            except Unavailable:
                continue
            await asyncio.sleep(EVERY_S)
