"""How commands ended, as the engine tells it by itself: sooner than it can be asked."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiodocker

from contracts.errors import ClocheError
from infra.docker.events import listen

KEPT = 1000
AGAIN_S = 1.0


class Ends:
    """What is missed here, while the engine is away or slow, is asked for instead. Close with `aclose`."""

    def __init__(self, client: Callable[[], Awaitable[aiodocker.Docker]]) -> None:
        self._client = client
        self._codes: OrderedDict[str, int] = OrderedDict()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._listening = asyncio.create_task(self._listen())

    async def code(self, process: str, patience_s: float) -> int | None:
        """The exit code of an exec; None where the engine has not told it by then."""
        if process not in self._codes:
            waiting = self._waiting[process] = asyncio.get_running_loop().create_future()
            await asyncio.wait([waiting], timeout=patience_s)
            del self._waiting[process]
        return self._codes.pop(process, None)

    async def _listen(self) -> None:
        while True:
            with suppress(ClocheError):
                async with listen(self._client, {"event": ["exec_die"]}) as events:
                    async for event in events:
                        if event.process is not None and event.exit_code is not None:
                            self._note(event.process, event.exit_code)
            await asyncio.sleep(AGAIN_S)

    def _note(self, process: str, code: int) -> None:
        self._codes[process] = code
        if len(self._codes) > KEPT:
            self._codes.popitem(last=False)
        if (waiting := self._waiting.get(process)) is not None and not waiting.done():
            waiting.set_result(None)

    async def aclose(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
