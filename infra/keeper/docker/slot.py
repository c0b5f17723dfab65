"""A shell in a container, started ahead and attached, that waits for its one line."""

import asyncio
import socket
from collections.abc import Callable, Sequence

from infra.docker.execs import Execs
from infra.docker.stuck import freeing
from infra.keeper.docker.bridge import Early
from infra.keeper.docker.frames import STDOUT, Demultiplexer
from infra.keeper.docker.instance import check_instance
from infra.keeper.docker.shell import READY, Usual
from infra.target import DockerTarget

READY_S = 30.0
LONGEST_PID = 10
LONGEST_ANSWER = 4096
MOST_BESIDE = 8 * 1024 * 1024
"""Bytes of stderr before an answer: a command's first ones may overtake it, but a flood must not fill the keeper."""


class SlotBroken(Exception):
    """The shell did not wait, or does not any more. It has not become the command."""


class Slot:
    """Used once. A process of the same container can disturb it, as it could disturb the command itself."""

    def __init__(self, sock: socket.socket, exec_id: str, *, tty: bool = False) -> None:
        self.sock = sock
        self.exec_id = exec_id
        """As the engine counts."""
        self.pid = 0
        self.has_env = False
        """Whether it can become a command: that takes the program `env`."""
        self.usual = Usual()
        """What it was given ahead."""
        self.frames = Demultiplexer(framed=not tty)
        self._stdout = bytearray()
        self._other: Early = []
        self._beside = 0

    @classmethod
    async def park(cls, execs: Execs, target: DockerTarget, usual: Usual) -> "Slot":
        """One that waits for any command. Raises like `open`."""
        slot = await cls.open(execs, target, [usual.script], usual.variables)
        slot.usual = usual
        return slot

    @classmethod
    async def open(
        cls, execs: Execs, target: DockerTarget, words: Sequence[str], env: Sequence[str], *, tty: bool = False
    ) -> "Slot":
        """Raises `SlotBroken` where there is no such shell, `LaunchFailed` where the container is not the one that is
        meant, and what `Execs` raises.
        """
        assert target.shell is not None
        exec_id = await execs.create(target.container, [target.shell, "-c", *words], user=target.user, env=env, tty=tty)
        # In this order: an exec does not outlive the start of the container that it was made in.
        await check_instance(execs, target)
        async with freeing(target.container):
            sock, early = await execs.attach(exec_id, tty=tty)
        slot = cls(sock, exec_id, tty=tty)
        try:
            slot._feed(early)
            async with asyncio.timeout(READY_S), freeing(target.container):
                slot._greet(await slot.answer())
        except TimeoutError:
            slot.close()
            raise SlotBroken("the shell does not answer") from None
        except BaseException:
            slot.close()
            raise
        return slot

    def _greet(self, line: str) -> None:
        match line.split(" "):
            case [word, pid, found] if word == READY and pid.isascii() and pid.isdigit() and len(pid) <= LONGEST_PID:
                self.pid, self.has_env = int(pid), found == "env"
            case _:
                raise SlotBroken(f"no shell that we can use: {line[:200]}")

    async def ask(self, line: bytes) -> str:
        """Gives the shell its line. The answer. Raises `SlotBroken` where it ended without one."""
        try:
            await asyncio.get_running_loop().sock_sendall(self.sock, line)
        except OSError as error:
            raise SlotBroken(f"the shell is gone: {error}") from error
        return await self.answer()

    async def answer(self) -> str:
        """The next line of its stdout."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._stdout:
            try:
                data = await loop.sock_recv(self.sock, 65_536)
            except OSError as error:
                raise SlotBroken(f"the connection is gone: {error}") from error
            if not data or len(self._stdout) > LONGEST_ANSWER:
                raise SlotBroken(f"the shell ended: {self._stdout[:200].decode('utf-8', 'replace').strip()}")
            self._feed(data)
            if self._beside > MOST_BESIDE:
                raise SlotBroken("the shell does not answer, and says too much else")
        line, _, rest = self._stdout.partition(b"\n")
        self._stdout = bytearray(rest)
        return line.decode("utf-8", "replace").removesuffix("\r")

    def _feed(self, data: bytes) -> None:
        for stream, part in self.frames.feed(memoryview(data)):
            if stream == STDOUT:
                self._stdout += part
            else:
                self._other.append((stream, bytes(part)))
                self._beside += len(part)

    def take_early(self) -> Early:
        """What came after the answer: it is the command's."""
        early = [*self._other, (STDOUT, bytes(self._stdout))]
        self._other, self._stdout = [], bytearray()
        return early

    def wait_idle(self, on_end: Callable[[], None]) -> None:
        """Calls back when the shell ends, or says something unasked."""
        asyncio.get_running_loop().add_reader(self.sock.fileno(), on_end)

    def stop_waiting(self) -> bool:
        """False where the shell is not what it was."""
        asyncio.get_running_loop().remove_reader(self.sock.fileno())
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """The shell sees the end of its input, and ends."""
        self.sock.close()
