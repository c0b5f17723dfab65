"""Into a container by an exec of the command itself, where no shell can wait for it."""

import asyncio
import contextlib

from contracts.errors import ClocheError, SandboxInvalidState, SandboxNotFound, Unavailable
from infra.docker.stuck import freeing
from infra.keeper.docker.bridge import Bridge, inner_pipes, open_terminal
from infra.keeper.docker.engine import Engine
from infra.keeper.docker.frames import Demultiplexer
from infra.keeper.docker.instance import as_launch_failed, check_instance
from infra.keeper.docker.launch import DockerLaunch
from infra.keeper.docker.refusal import refusal
from infra.keeper.docker.shell import check, environment
from infra.keeper.launch import Launched, LaunchFailed, SandboxSilent
from infra.keeper.protocol import Start
from infra.target import DockerTarget

START_S = 30.0
BEGIN_POLL_S = 0.005


class PlainWay:
    """An exec of the command itself."""

    def __init__(self, engine: Engine, target: DockerTarget) -> None:
        self._engine = engine
        self._target = target

    async def launch(self, start: Start, stdio: tuple[int, ...]) -> Launched:
        check(start)
        process = await self._create(start)
        try:
            return await self._start(start, process, stdio)
        except LaunchFailed:
            raise
        except BaseException:
            self._engine.kill_later(self._target, start.exec)
            raise

    async def _create(self, start: Start) -> str:
        execs, target = self._engine.execs, self._target
        try:
            process = await execs.create(
                target.container,
                start.argv,
                user=target.user,
                env=environment(start),
                cwd=start.cwd,
                tty=start.pty is not None,
            )
            # In this order: an exec does not outlive the start of the container that it was made in.
            await check_instance(execs, target)
        except ClocheError as error:
            raise as_launch_failed(error) from error
        return process

    async def _start(self, start: Start, process: str, stdio: tuple[int, ...]) -> Launched:
        try:
            async with freeing(self._target.container):
                sock, early = await self._engine.execs.attach(process, tty=start.pty is not None)
        except (SandboxNotFound, SandboxInvalidState) as error:
            raise as_launch_failed(error) from error
        except Unavailable as error:
            raise SandboxSilent(error.message) from error
        frames = Demultiplexer(framed=start.pty is None)
        try:
            if not await self._began(process):
                raise await refusal(sock, frames, early)
            terminal = open_terminal() if start.pty else None
            inner = terminal.inner if terminal else inner_pipes(stdio, stdin=start.stdin)
        except BaseException:
            sock.close()
            raise
        if start.pty:
            # The program may have asked before: there is no moment between its start and its first steps.
            with contextlib.suppress(ClocheError):
                await self._engine.execs.resize(process, start.pty.rows, start.pty.cols)
        bridge = Bridge(sock, frames, inner)
        bridge.begin([(part.stream, bytes(part.data)) for part in frames.feed(memoryview(early))])
        self._engine.live.add(start.exec)
        return DockerLaunch(
            self._engine, self._target, start.exec, process, bridge, master=terminal and terminal.master
        )

    async def _began(self, process: str) -> bool:
        """Raises `SandboxSilent` where the engine does not say."""
        try:
            async with asyncio.timeout(START_S):
                while True:
                    state = await self._engine.execs.inspect(process)
                    if state.pid or state.code is not None:
                        return state.pid != 0
                    await asyncio.sleep(BEGIN_POLL_S)
        except (TimeoutError, ClocheError) as error:
            raise SandboxSilent(f"the engine does not say whether the command began: {error}") from None

    def close(self) -> None:
        """Nothing is held."""
