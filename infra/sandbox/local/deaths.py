"""Noticing at once that a sandbox's init has ended."""

import asyncio
import os
from typing import NamedTuple

from contracts.ids import SandboxId
from infra.sandbox.local.processes import Identity, open_process


class Death(NamedTuple):
    sandbox: SandboxId
    instance: str


class DeathWatch:
    """Watches processes that are not our children, by pidfd. Belongs to one event loop."""

    def __init__(self) -> None:
        self._pidfds: dict[str, int] = {}
        self._told: set[str] = set()
        self._listeners: set[asyncio.Queue[Death]] = set()

    def listen(self) -> asyncio.Queue[Death]:
        queue: asyncio.Queue[Death] = asyncio.Queue()
        self._listeners.add(queue)
        return queue

    def unlisten(self, queue: asyncio.Queue[Death]) -> None:
        self._listeners.discard(queue)

    async def watch(self, death: Death, identity: Identity) -> None:
        """From now on. Watching the same instance again changes nothing; one that is gone already is told now."""
        if death.instance in self._pidfds:
            return
        pidfd = await asyncio.to_thread(open_process, identity)
        if pidfd is None:
            self._tell(death)
        elif death.instance in self._pidfds:
            os.close(pidfd)
        else:
            self._pidfds[death.instance] = pidfd
            asyncio.get_running_loop().add_reader(pidfd, self._ended, death)

    def _ended(self, death: Death) -> None:
        self._forget(death.instance)
        self._tell(death)

    def _tell(self, death: Death) -> None:
        if death.instance in self._told:
            return
        self._told.add(death.instance)
        for queue in self._listeners:
            queue.put_nowait(death)

    def _forget(self, instance: str) -> None:
        pidfd = self._pidfds.pop(instance)
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)

    async def aclose(self) -> None:
        for instance in list(self._pidfds):
            self._forget(instance)
