"""The commands of this node that are not over: each attached to the keeper's record of it."""

import asyncio
import logging
import signal
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from contracts.errors import ClocheError, Invalid, Unavailable
from infra import clock
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.keeper.client import KeeperClient
from infra.keeper.launcher import ensure_keeper
from infra.sandbox.base import Target
from services.executor import ending
from services.executor.outlet import Outlet, context_from, published
from services.executor.record import TIMED_OUT, Context, note

logger = logging.getLogger(__name__)

RETRY_S = 0.2


class Attachments:
    """Holds the connection to the keeper, and one outlet for each record that it has.

    `hold` runs for ever: it makes sure that there is a keeper, attaches to everything that the keeper has, and does so
    again whenever the keeper is gone.
    """

    def __init__(self, data: Path, bus: Bus, journal: Journal) -> None:
        self._data = data
        self._bus = bus
        self._journal = journal
        self._client: KeeperClient | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._attached: dict[str, Context] = {}
        self.ready = asyncio.Event()

    def keeper(self) -> KeeperClient:
        """Raises `Unavailable` while there is none."""
        if self._client is None:
            raise Unavailable("the keeper is being started")
        return self._client

    def has(self, key: str) -> bool:
        return key in self._attached

    async def hold(self) -> None:
        while True:
            try:
                await ensure_keeper(self._data)
                async with await KeeperClient.connect(self._data) as client:
                    await self._serve(client)
            except* Unavailable as gone:
                logger.warning("keeper: %s", gone.exceptions[0])
            finally:
                self._client = None
                self.ready.clear()
                self._attached.clear()
            await asyncio.sleep(RETRY_S)

    async def _serve(self, client: KeeperClient) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for record in await client.list():
                self._attach(client, context_from(record.context), record.begun_ns, ending=bool(record.notes))
            self._client = client
            self.ready.set()
            await client.closed()
            raise Unavailable("the keeper has gone")

    async def start(self, context: Context, target: Target, environment: Mapping[str, str]) -> None:
        """Has the keeper start it, at most once, and attaches to its record."""
        client = self.keeper()
        begun = await client.start(
            exec=context.key,
            target=target,
            argv=context.argv,
            env=environment,
            cwd=context.cwd,
            pty=context.pty,
            stdin=context.stdin,
            context=context,
        )
        if not self.has(context.key):
            self._attach(client, context, begun.begun_ns)

    def end(self, key: str, *, note: str, first: int, grace_s: float) -> None:
        """Starts to end a command; its record tells when it has."""
        self._spawn(key, ending.end(self.keeper(), key, note=note, first=first, grace_s=grace_s))

    def _attach(self, client: KeeperClient, context: Context, begun_ns: int, *, ending: bool = False) -> None:
        self._attached[context.key] = context
        assert self._tasks is not None
        self._tasks.create_task(self._publish(client, context, begun_ns))
        if ending:
            self.end_now(client, context.key)
        elif context.timeout_ms is not None:
            self._limit(client, context, begun_ns)
