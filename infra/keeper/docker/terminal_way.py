"""Into a container with a terminal: a shell waits until the terminal has its size, and becomes the command."""

import asyncio

from contracts.errors import ClocheError
from infra.keeper.docker.bridge import Bridge, open_terminal
from infra.keeper.docker.engine import Engine
from infra.keeper.docker.instance import as_launch_failed
from infra.keeper.docker.launch import DockerLaunch
from infra.keeper.docker.plain_way import PlainWay
from infra.keeper.docker.shell import MEANINGS, OK, environment, terminal_words
from infra.keeper.docker.slot import Slot, SlotBroken
from infra.keeper.launch import Launched, LaunchFailed, SandboxSilent
from infra.keeper.protocol import PtySize, Start
from infra.target import DockerTarget

START_S = 30.0


class TerminalWay:
    def __init__(self, engine: Engine, target: DockerTarget) -> None:
        self._engine = engine
        self._target = target

    async def launch(self, start: Start, stdio: tuple[int, ...]) -> Launched:
        words = terminal_words(start)
        try:
            slot = await Slot.open(self._engine.execs, self._target, words, environment(start), tty=True)
        except SlotBroken:
            return await PlainWay(self._engine, self._target).launch(start, stdio)
        except ClocheError as error:
            raise as_launch_failed(error) from error
        try:
            assert start.pty is not None
            await self._become(slot, start.pty)
            terminal = open_terminal()
        except BaseException:
            slot.close()
            # Also where the shell said that it did not begin: nothing is found then.
            self._engine.kill_later(self._target, start.exec)
            raise
        bridge = Bridge(slot.sock, slot.frames, terminal.inner)
        bridge.begin(slot.take_early())
        self._engine.live.add(start.exec)
        return DockerLaunch(
            self._engine, self._target, start.exec, slot.exec_id, bridge, pid=slot.pid, master=terminal.master
        )

    async def _become(self, slot: Slot, size: PtySize) -> None:
        try:
            async with asyncio.timeout(START_S):
                await self._engine.execs.resize(slot.exec_id, size.rows, size.cols)
                # The terminal shows the line that is typed, before the shell answers.
                answer = await slot.ask(b"\n") or await slot.answer()
        except (TimeoutError, SlotBroken, ClocheError) as error:
            raise SandboxSilent(f"the sandbox does not answer: {error}") from None
        if answer != OK:
            raise LaunchFailed(answer if answer in MEANINGS else "FAILED", MEANINGS.get(answer, answer[:200]))

    def close(self) -> None:
        """Nothing is held."""
