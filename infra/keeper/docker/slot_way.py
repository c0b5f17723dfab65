"""Into a container through a shell that waits there and becomes the command."""

import asyncio

from contracts.errors import ClocheError
from infra.keeper.docker.bridge import Bridge, inner_pipes
from infra.keeper.docker.engine import Engine
from infra.keeper.docker.instance import as_launch_failed
from infra.keeper.docker.launch import DockerLaunch
from infra.keeper.docker.shell import MEANINGS, OK, Usual, command_line
from infra.keeper.docker.slot import Slot, SlotBroken
from infra.keeper.launch import Launched, LaunchFailed, SandboxSilent
from infra.keeper.protocol import Start
from infra.target import DockerTarget

START_S = 30.0


class SlotWay:
    """A shell that waits in the container and becomes the command."""

    def __init__(self, engine: Engine, target: DockerTarget, slot: Slot) -> None:
        self._engine = engine
        self._target = target
        self._slot = slot

    async def launch(self, start: Start, stdio: tuple[int, ...]) -> Launched:
        try:
            line = command_line(start, self._slot.usual)
            inner = inner_pipes(stdio, stdin=start.stdin)
        except LaunchFailed:
            self.close()
            raise
        try:
            await self._become(start, line)
        except BaseException as error:
            inner.close()
            self.close()
            if not isinstance(error, LaunchFailed):
                # Nobody can say whether it began.
                self._engine.kill_later(self._target, start.exec, self._slot.pid or None, self._slot.exec_id)
            raise
        finally:
            self._engine.slots.refill(self._target)
        slot = self._slot
        bridge = Bridge(slot.sock, slot.frames, inner)
        bridge.begin(slot.take_early())
        self._engine.live.add(start.exec)
        return DockerLaunch(self._engine, self._target, start.exec, slot.exec_id, bridge, pid=slot.pid)

    async def _become(self, start: Start, line: bytes) -> None:
        try:
            answer = await self._ask(line)
        except SlotBroken:
            self._slot.close()
            answer = await self._ask_another(start)
        if answer != OK:
            raise LaunchFailed(answer if answer in MEANINGS else "FAILED", MEANINGS.get(answer, answer[:200]))

    async def _ask_another(self, start: Start) -> str:
        try:
            self._slot = await Slot.park(self._engine.execs, self._target, Usual())
            return await self._ask(command_line(start, Usual()))
        except SlotBroken as error:
            raise LaunchFailed("FAILED", str(error)) from error
        except ClocheError as error:
            raise as_launch_failed(error) from error

    async def _ask(self, line: bytes) -> str:
        """Raises `SlotBroken` where the command surely did not begin, `SandboxSilent` where nobody can say."""
        try:
            async with asyncio.timeout(START_S):
                return await self._slot.ask(line)
        except TimeoutError:
            raise SandboxSilent("the sandbox does not answer: is it paused, or out of processes?") from None
        except SlotBroken:
            await self._see_it_ended()
            raise

    async def _see_it_ended(self) -> None:
        """A shell that ended without a word became nothing; an engine that ended took the word with it, and one that
        was started since knows nothing of the shell.
        """
        try:
            state = await self._engine.execs.inspect(self._slot.exec_id)
        except ClocheError as error:
            raise SandboxSilent(error.message) from error
        if state.running:
            raise SandboxSilent("the connection to the sandbox broke")

    def close(self) -> None:
        self._slot.close()
