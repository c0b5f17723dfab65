"""One Docker engine as the keeper uses it: its calls, the slots in its containers, and the ends of commands."""

import asyncio
import contextlib
import logging
import signal
from contextlib import AsyncExitStack

import aiodocker

from contracts.errors import ClocheError, Conflict, SandboxNotFound, Unavailable
from infra.docker.connecting import connect
from infra.docker.execs import Execs, ExecState
from infra.keeper.docker.ends import Ends
from infra.keeper.docker.host import signal_from_host
from infra.keeper.docker.instance import check_answering
from infra.keeper.docker.shell import Usual
from infra.keeper.docker.slot import Slot, SlotBroken
from infra.keeper.docker.slots import SlotPool
from infra.keeper.docker.tree import signal_line
from infra.keeper.launch import LaunchFailed, SandboxGone
from infra.keeper.protocol import Scope
from infra.target import DockerTarget

BACK_S = 30.0
"""How long an engine that went away may take to come back."""
SIGNAL_S = 30.0
"""As long as a start: an engine that has much to do takes its time."""
KILL_ATTEMPTS = 60
CLOSING_S = 15.0
HOST_ROUNDS = 10

log = logging.getLogger("cloche.keeper")


class Engine:
    def __init__(self, execs: Execs, ends: Ends, connection: AsyncExitStack) -> None:
        self.execs = execs
        self.ends = ends
        self._connection = connection
        self.slots = SlotPool(self._open_slot)
        self.live: set[str] = set()
        """Ids of the commands that run or begin."""
        self._kills: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, address: str) -> "Engine":
        """Raises `Unavailable` for an address that cannot be used; nothing is asked of the engine yet."""
        connection = AsyncExitStack()
        docker = await connection.enter_async_context(connect(address))

        async def client() -> aiodocker.Docker:
            return docker

        ends = Ends(client)
        connection.push_async_callback(ends.aclose)
        return cls(Execs(address, docker), ends, connection)

    async def _open_slot(self, target: DockerTarget, usual: Usual) -> Slot:
        return await Slot.park(self.execs, target, usual)

    async def slot(self, target: DockerTarget) -> Slot:
        """A prepared one where there is one, else a new one. Raises like `Slot.open`."""
        return await self.slots.get(target)

    async def state(self, process: str) -> ExecState:
        """Of an exec. Waits for an engine that is away, 30 s at most: then `Unavailable`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + BACK_S
        while True:
            try:
                return await self.execs.inspect(process)
            except Unavailable:
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(0.2)

    async def signal(
        self, target: DockerTarget, exec_id: str, signum: int, scope: Scope, pid: int | None = None, process: str = ""
    ) -> int:
        """How many processes of the command got it.

        `pid` of its main process as the container counts; `process` is its exec. Either may be unknown.
        Raises `SandboxGone`, `Conflict` where the container is paused, `Unavailable` where the engine is away.
        """
        try:
            await check_answering(self.execs, target)
        except SandboxNotFound as error:
            raise SandboxGone("the container is gone") from error
        if target.shell is not None:
            try:
                async with asyncio.timeout(SIGNAL_S):
                    return await self._signal_inside(target, signal_line(exec_id, pid, signum, scope, self.live))
            except TimeoutError:
                raise Conflict("the sandbox does not answer: is it paused?") from None
            except (SlotBroken, LaunchFailed, ClocheError, ValueError) as error:
                log.info("no signal from inside container %s, so from the host: %s", target.container[:12], error)
        return await self._signal_from_host(target, exec_id, signum, scope, process)

    async def _signal_inside(self, target: DockerTarget, line: bytes) -> int:
        slot = await self.slot(target)
        try:
            return int(await slot.ask(line))
        finally:
            slot.close()
            self.slots.refill(target)

    async def _signal_from_host(
        self, target: DockerTarget, exec_id: str, signum: int, scope: Scope, process: str
    ) -> int:
        main = await self._host_pid(process) if process else 0
        count = 0
        for _ in range(HOST_ROUNDS if signum == signal.SIGKILL else 1):
            pids = await self.execs.host_pids(target.container)
            got = await asyncio.to_thread(signal_from_host, target.container, pids, exec_id, main, signum, scope)
            count = max(count, got)
            if not got:
                break
        return count

    async def _host_pid(self, process: str) -> int:
        """0 where an engine that was started since knows nothing of it."""
        try:
            return (await self.execs.inspect(process)).pid
        except SandboxNotFound:
            return 0

    def kill_later(
        self, target: DockerTarget, exec_id: str, pid: int | None = None, process: str = ""
    ) -> asyncio.Task[None]:
        """In the background: what is left of a command that nobody holds any more.

        `pid` and `process` as for `signal`.
        """
        task = asyncio.create_task(self._kill(target, exec_id, pid, process))
        self._kills.add(task)
        task.add_done_callback(self._kills.discard)
        return task

    async def _kill(self, target: DockerTarget, exec_id: str, pid: int | None, process: str) -> None:
        for _ in range(KILL_ATTEMPTS):
            try:
                await self.signal(target, exec_id, signal.SIGKILL, "tree", pid, process)
            except SandboxGone:
                return
            except ClocheError as error:
                log.info("%s cannot be killed yet: %s", exec_id, error)
                await asyncio.sleep(1)
            else:
                return
        log.warning("%s may still run in container %s", exec_id, target.container[:12])

    async def aclose(self) -> None:
        """Kills what was to be killed, in 15 s at most, and lets the slots go."""
        if self._kills:
            _, late = await asyncio.wait(self._kills, timeout=CLOSING_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.slots.aclose()
        with contextlib.suppress(OSError):
            await self._connection.aclose()
