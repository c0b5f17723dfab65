"""When to look: not at each change of a burst, and not so late that anybody waits."""

import asyncio
import math
import time
from collections.abc import Callable


class Window:
    def __init__(self, quiet_s: float, longest_s: float) -> None:
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._news = asyncio.Event()
        self._hurry = asyncio.Event()

    def news(self) -> None:
        self._news.set()

    def hurry(self) -> None:
        """Somebody waits: look now."""
        self._hurry.set()
        self._news.set()

    async def passes(self, last_notice: Callable[[], float], due: float | None) -> None:
        """Waits for news, and then until none has come for a while; or until `due`, by the monotonic clock."""
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - time.monotonic())):
                await self._news.wait()
        except TimeoutError:
            return
        longest = min(time.monotonic() + self._longest_s, math.inf if due is None else due)
        while (left := min(last_notice() + self._quiet_s, longest) - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._hurry.wait()
                    break
            except TimeoutError:
                continue
        self._news.clear()
        self._hurry.clear()
