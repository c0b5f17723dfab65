"""Starting a process in a local sandbox: a conversation with the sandbox's init, one connection per command."""

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
import termios
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from infra.keeper.launch import Ending, Launched, LaunchFailed, SandboxGone, SandboxSilent
from infra.keeper.outcome import Rusage
from infra.keeper.protocol import Scope, Start
from infra.keeper.unborn import kill_unborn
from infra.target import LocalTarget
from infra.unix_socket import short_address

MAX_MESSAGE = 4 * 1024 * 1024
CONNECT_ATTEMPTS = 200
START_S = 30.0
ANSWER_S = 1.0


class _ExitPart(Struct, frozen=True):
    code: int | None = None
    signal: int | None = None
    core: bool = False


class _ExitMessage(Struct, frozen=True):
    exit: _ExitPart
    rusage: Rusage | None = None


class InitConnection:
    """Frames and descriptors to and from init. Every method raises `SandboxGone` when it is not there any more."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._incoming = bytearray()
        self.fds: list[int] = []

    @classmethod
    async def open(cls, path: Path) -> "InitConnection":
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            await _connect(sock, path)
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    @property
    def peer_pid(self) -> int:
        """Of init, which listens itself."""
        credentials = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    async def send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        body = json.dumps(message).encode()
        data = len(body).to_bytes(4, "big") + body
        try:
            # The buffer of a fresh connection is empty, so the descriptors go with the first part at once.
            sent = socket.send_fds(self._sock, [data], list(fds)) if fds else 0
            await asyncio.get_running_loop().sock_sendall(self._sock, data[sent:])
        except OSError as error:
            raise SandboxGone(f"the sandbox's init is gone: {error}") from error

    async def receive(self) -> dict[str, Any]:
        try:
            while (message := self._take()) is None:
                await self._fill()
        except (OSError, ValueError) as error:
            raise SandboxGone(f"the sandbox's init is gone: {error}") from error
        return message

    def _take(self) -> dict[str, Any] | None:
        size = int.from_bytes(self._incoming[:4], "big")
        if size > MAX_MESSAGE:
            raise ValueError(f"message of {size} bytes")
        if len(self._incoming) < 4 or len(self._incoming) < 4 + size:
            return None
        message = msgspec.json.decode(self._incoming[4 : 4 + size], type=dict[str, Any])
        del self._incoming[: 4 + size]
        return message

    async def _fill(self) -> None:
        await _readable(self._sock)
        with contextlib.suppress(BlockingIOError):
            data, fds, _, _ = socket.recv_fds(self._sock, 65_536, 4, socket.MSG_CMSG_CLOEXEC)
            self.fds += fds
            if not data:
                raise ConnectionResetError("connection closed")
            self._incoming += data

    def close(self) -> None:
        self._sock.close()
        while self.fds:
            os.close(self.fds.pop())


async def _connect(sock: socket.socket, path: Path) -> None:
    for _ in range(CONNECT_ATTEMPTS):
        try:
            with short_address(path) as address:
                sock.connect(address)
            return
        except BlockingIOError:
            # A full backlog. There is no event for its end, and asyncio's sock_connect takes it for success.
            await asyncio.sleep(0.01)
        except OSError as error:
            raise SandboxGone(f"the sandbox does not answer: {error}") from error
    raise SandboxGone("the sandbox does not answer: its backlog stays full")


async def _readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock, _wake, ready)
    try:
        await ready
    finally:
        loop.remove_reader(sock)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class LocalLaunch:
    """A command in a local sandbox."""

    answers_within_s: float | None = ANSWER_S

    def __init__(self, connection: InitConnection, pid: int, master: int | None) -> None:
        self._connection = connection
        self._answers: deque[asyncio.Future[int]] = deque()
        self.pid = pid
        self.master = master

    async def ended(self) -> Ending:
        """Waits for the real end. Must run for `signal` to be answered. Raises `SandboxGone`."""
        try:
            while "exit" not in (message := await self._connection.receive()):
                self._answer(message)
        except SandboxGone:
            self._give_up()
            raise
        said = msgspec.convert(message, _ExitMessage)
        return Ending(said.exit.code, said.exit.signal, said.exit.core, said.rusage)

    async def answer_signals(self) -> None:
        """After the end: goes on until the sandbox is gone."""
        with contextlib.suppress(SandboxGone):
            while True:
                self._answer(await self._connection.receive())
        self._give_up()

    async def signals_answered(self) -> None:
        """Until the signals sent so far are answered, or a second has passed. `answer_signals` must run."""
        if self._answers:
            await asyncio.wait(list(self._answers), timeout=ANSWER_S)

    async def signal(self, signum: int, scope: Scope) -> int:
        """How many processes got it, once init says so: it may be paused. Raises `SandboxGone`."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        await self._connection.send({"op": "signal", "signum": signum, "scope": scope})
        return await answer

    async def resize(self, rows: int, cols: int) -> None:
        assert self.master is not None
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))

    def close(self) -> None:
        """Init kills what still belongs to the command if its main process runs."""
        self._give_up()
        self._connection.close()

    def _answer(self, message: dict[str, Any]) -> None:
        if self._answers:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_result(int(message.get("signalled", 0)))

    def _give_up(self) -> None:
        while self._answers:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_exception(SandboxGone("the sandbox is gone"))


class LocalWay:
    """A connection to a local sandbox's init that no command has used."""

    def __init__(self, connection: InitConnection, target: LocalTarget) -> None:
        self._connection = connection
        self._target = target

    @classmethod
    async def open(cls, target: LocalTarget) -> "LocalWay":
        """Raises `LaunchFailed`."""
        try:
            return cls(await InitConnection.open(Path(target.socket)), target)
        except SandboxGone as error:
            raise LaunchFailed("SANDBOX_GONE", str(error)) from error

    async def launch(self, start: Start, stdio: tuple[int, ...]) -> Launched:
        try:
            return await _start(self._connection, self._target, start, stdio)
        except SandboxSilent:
            self.close()
            raise
        except SandboxGone as error:
            self.close()
            raise LaunchFailed("SANDBOX_GONE", str(error)) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()


async def _start(connection: InitConnection, target: LocalTarget, start: Start, stdio: tuple[int, ...]) -> Launched:
    pty = None if start.pty is None else {"rows": start.pty.rows, "cols": start.pty.cols}
    request = {
        "op": "start",
        "instance": target.instance,
        "exec": start.exec,
        "argv": start.argv,
        "env": start.env,
        "cwd": start.cwd,
        "pty": pty,
    }
    await connection.send(request, stdio)
    answer = await _answer_to_start(connection)
    if not answer.get("ok"):
        raise LaunchFailed(str(answer.get("code", "FAILED")), str(answer.get("error", "no reason given")))
    master = connection.fds.pop() if start.pty is not None and connection.fds else None
    if start.pty is not None and master is None:
        raise LaunchFailed("FAILED", "init sent no terminal")
    return LocalLaunch(connection, int(answer["pid"]), master)


async def _answer_to_start(connection: InitConnection) -> dict[str, Any]:
    """Init waits while its child becomes the command, and a hostile neighbour may stop that child for ever."""
    for _ in range(int(START_S / ANSWER_S)):
        try:
            async with asyncio.timeout(ANSWER_S):
                return await connection.receive()
        except TimeoutError:
            kill_unborn(connection.peer_pid)
    raise SandboxSilent("the sandbox does not answer: is it paused, or out of processes?") from None
