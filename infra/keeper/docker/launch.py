"""A command in a container, and how it ended.

What differs from a local sandbox, because the engine stands between:
- It tells a death by signal n as the code 128 + n, like an exit with that code. Only a kill of ours is told apart.
- It ends the streams with the process, or 2 s later where a background child holds them: what that child writes
  after that is lost, and the end of the command is known only then. A reader that stands still for 2 s when the
  command ends (a full backlog) loses what had not left the container's pipe.
- A program whose interpreter is missing, or that is no program for this machine, ends with 126 or 127 and the words
  of `env` on its stderr. A text without `#!` may be run by `/bin/sh`.
- With a terminal, or in an image without a shell or `env`, the image's own variables come in addition.
"""

import asyncio
import signal

from contracts.errors import Conflict, Invalid, SandboxError, SandboxInvalidState, SandboxNotFound, Unavailable
from infra.docker.execs import ExecState
from infra.keeper.docker.bridge import Bridge
from infra.keeper.docker.engine import Engine
from infra.keeper.docker.instance import is_current
from infra.keeper.launch import ConnectionLost, Ending, SandboxGone
from infra.keeper.protocol import Scope
from infra.target import DockerTarget

KILLED = 128 + signal.SIGKILL
ENDED_S = 2.0
"""How long an exec may be told as running though its stream has ended."""
STOPPED_S = 0.5
"""How long a container may be told as running though its processes were killed with it."""
TOLD_S = 0.02
"""The engine tells the end of a command with the end of its stream. After that, it is asked."""
POLL_S = 0.02
FIRST_PAUSE_S = 0.001


class DockerLaunch:
    answers_within_s: float | None = None

    def __init__(
        self,
        engine: Engine,
        target: DockerTarget,
        exec_id: str,
        process: str,
        bridge: Bridge,
        *,
        pid: int | None = None,
        master: int | None = None,
    ) -> None:
        self._engine = engine
        self._target = target
        self._exec_id = exec_id
        self._process = process
        self._bridge = bridge
        self._pid = pid
        self.pid = pid or 0
        self.master = master
        self._killed = False
        self._over = False

    async def ended(self) -> Ending:
        """Waits for the end of its stream, which comes with the end of the process, and asks for its status.

        Raises `SandboxGone`, as `ConnectionLost` where the sandbox is there and the connection to the command not:
        it is killed then.
        """
        await self._bridge.ended.wait()
        try:
            ending = await self._judge(await self._final_state())
        except Unavailable as error:
            raise ConnectionLost(error.message) from error
        self._over = True
        return ending

    async def _final_state(self) -> ExecState | None:
        """None where an engine that was started anew knows nothing of it."""
        code = await self._engine.ends.code(self._process, TOLD_S)
        if code is not None:
            return ExecState(running=False, code=code, pid=0)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ENDED_S
        pause = FIRST_PAUSE_S
        try:
            while True:
                state = await self._engine.state(self._process)
                if not state.running or loop.time() > deadline:
                    return state
                await asyncio.sleep(pause)
                pause = min(pause * 2, POLL_S)
        except (SandboxNotFound, SandboxInvalidState):
            return None

    async def _judge(self, state: ExecState | None) -> Ending:
        if state is None or state.running or state.code is None:
            if await is_current(self._engine.execs, self._target):
                raise ConnectionLost("the connection to the command broke")
            raise self._gone()
        if state.code != KILLED:
            return Ending(state.code, None, False, None)
        if self._killed:
            return Ending(None, signal.SIGKILL, False, None)
        if await self._was_stopped():
            raise self._gone()
        return Ending(state.code, None, False, None)

    def _gone(self) -> SandboxGone:
        self._over = True
        return SandboxGone("the container ended")

    async def _was_stopped(self) -> bool:
        """Whether it was killed together with its container, whose end the engine tells a little later."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STOPPED_S
        while current := await is_current(self._engine.execs, self._target):
            if loop.time() > deadline:
                break
            await asyncio.sleep(POLL_S)
        return not current

    async def answer_signals(self) -> None:
        """Nothing to do: each signal has its own way in."""

    async def signals_answered(self) -> None:
        """Nothing to wait for: an answer needs nothing of the command."""

    async def signal(self, signum: int, scope: Scope) -> int:
        # Before it is sent: the end may be seen before the answer.
        self._killed = self._killed or signum == signal.SIGKILL
        try:
            return await self._engine.signal(self._target, self._exec_id, signum, scope, self._pid, self._process)
        except Unavailable as error:
            raise _as_conflict(error) from error

    async def resize(self, rows: int, cols: int) -> None:
        """Raises `Invalid` where the command has ended meanwhile, and `Conflict` where the engine is away."""
        try:
            await self._engine.execs.resize(self._process, rows, cols)
        except SandboxError as error:
            raise Invalid(f"{self._exec_id} has no terminal any more: {error.message}") from error
        except Unavailable as error:
            raise _as_conflict(error) from error

    def close(self) -> None:
        """What still runs of it is killed in the background."""
        self._bridge.close()
        self._engine.live.discard(self._exec_id)
        if not self._over:
            self._engine.kill_later(self._target, self._exec_id, self._pid, self._process)


def _as_conflict(error: Unavailable) -> Conflict:
    """To a client of the keeper, `Unavailable` means that the keeper itself is gone."""
    return Conflict(f"the sandbox does not answer: {error.message}")
