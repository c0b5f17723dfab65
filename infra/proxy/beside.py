"""Work that goes on while something else is waited for."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from infra.proxy.answers import Failed
from infra.proxy.connection import Connection
from infra.proxy.port import Refused
from infra.proxy.wire import Broken


class Beside:
    """Inside the block the work runs; it is over afterwards. Where it fails, the client's connection is stopped."""

    def __init__(self, client: Connection, work: Coroutine[Any, Any, None]) -> None:
        self._client = client
        self._task = asyncio.ensure_future(self._run(work))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (Refused, Failed) as failure:
            self._client.stop(Refused(failure.reason, failure.status))
        except Broken:
            self._client.stop(Refused("the connection was lost", 502))
