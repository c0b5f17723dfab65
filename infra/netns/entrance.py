"""Opens listening sockets inside sandboxes, by whichever way this service has the right to go."""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from contracts.errors import SandboxInvalidState, SandboxNotFound, Unavailable
from infra.netns.answer import WORDS
from infra.netns.enter import BY_NEIGHBOUR
from infra.netns.errors import LifeIsOver, NoWayIn
from infra.netns.helper import Helper
from infra.netns.opened import Opened
from infra.netns.process import HeldProcess, hold
from infra.sandbox.base import Provider, SandboxState
from infra.target import DockerTarget, Target

NEIGHBOUR = WORDS[BY_NEIGHBOUR]
UP = (SandboxState.RUNNING, SandboxState.PAUSED)


class Entered(NamedTuple):
    opened: Opened
    process: HeldProcess | None

    @property
    def way(self) -> str:
        return self.opened.way

    @property
    def listeners(self) -> Mapping[int, socket.socket]:
        return self.opened.listeners

    async def life_is_over(self) -> None:
        """Returns at the end of what was entered; never, where its processes are not to be seen from here."""
        if self.process is None:
            await asyncio.Event().wait()
        else:
            await self.process.ended()

    def close(self) -> None:
        self.opened.close()
        if self.process is not None:
            self.process.close()


class Entrance:
    """Belongs to one event loop."""

    def __init__(self, data: Path, helper: Helper | None = None) -> None:
        self._data = data
        self.helper = helper or Helper()

    async def listen(self, provider: Provider, sandbox: str, instance: str, ports: tuple[int, ...]) -> Entered:
        """On the loopback of that life of the sandbox, and no other.

        Raises `LifeIsOver`, `PortTaken`, `NoWayIn`, and `Unavailable` for what may work a moment later.
        """
        pid = await living(provider, sandbox, instance)
        target = await provider.target(sandbox)
        process = await _held(pid, target)
        opening = asyncio.create_task(self._open(process, target, ports))
        try:
            # A number is given to another process once its own is gone; it was not, if it still has it.
            await still_living(provider, sandbox, instance, pid)
            opened = await opening
            if opened.way == NEIGHBOUR:
                # It went by the name of the container, which may have been started anew since.
                await still_living(provider, sandbox, instance, pid)
        except BaseException:
            await asyncio.shield(_undo(opening, process))
            raise
        return Entered(opened, process)

    async def _open(self, process: HeldProcess | None, target: Target, ports: tuple[int, ...]) -> Opened:
        try:
            if process is None or process.namespace is None:
                raise NoWayIn("this service cannot look into its processes")
            return await self.helper.listen(process.namespace, ports)
        except NoWayIn:
            if not isinstance(target, DockerTarget):
                raise
            # What speaks to an engine is loaded only where it is needed.
            from infra.netns.neighbour import listen_as_neighbour

            return await listen_as_neighbour(target, ports, self._data)

    async def aclose(self) -> None:
        await self.helper.aclose()

    async def __aenter__(self) -> Self:
        with suppress(Unavailable):
            await self.helper.warm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _held(pid: int, target: Target) -> HeldProcess | None:
    holding = asyncio.get_running_loop().run_in_executor(None, hold, pid, target)
    try:
        return await asyncio.shield(holding)
    except asyncio.CancelledError:
        # The thread goes on, and what it gets is nobody's.
        holding.add_done_callback(_let_go)
        raise


def _let_go(holding: "asyncio.Future[HeldProcess | None]") -> None:
    if not holding.cancelled() and holding.exception() is None and (process := holding.result()) is not None:
        process.close()


async def _undo(opening: asyncio.Task[Opened], process: HeldProcess | None) -> None:
    opening.cancel()
    await asyncio.wait({opening})
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
    if process is not None:
        process.close()


async def still_living(provider: Provider, sandbox: str, instance: str, pid: int) -> None:
    if await living(provider, sandbox, instance) != pid:
        raise LifeIsOver(f"{sandbox} was started anew")


async def living(provider: Provider, sandbox: str, instance: str) -> int:
    """The number of the first process of that life. Raises `LifeIsOver`, `Unavailable`."""
    try:
        seen = await provider.inspect(sandbox)
    except (SandboxNotFound, SandboxInvalidState) as error:
        raise LifeIsOver(error.message) from error
    if seen is None or seen.state not in UP or seen.instance != instance or not seen.pid:
        raise LifeIsOver(f"{sandbox} does not run, or was started anew")
    return seen.pid
