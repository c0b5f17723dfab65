"""The warm process that enters network namespaces for us."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from contracts.errors import Unavailable
from infra.netns import enter
from infra.netns.answer import Answer, judge, received
from infra.netns.opened import Opened

ANSWER_S = 5.0
ATTEMPTS = 2


class Helper:
    """Started when it is first needed, or by `warm`, and again when it has died. Belongs to one event loop."""

    def __init__(self, *, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def warm(self) -> None:
        """Start it ahead of the first request. Raises `Unavailable`."""
        await self._started()

    async def listen(self, namespace: int, ports: tuple[int, ...]) -> Opened:
        """On the loopback of that network namespace, a descriptor of which stays the caller's.

        Raises `PortTaken`, `NoWayIn` without the right to enter, `Unavailable` when the helper does not answer.
        """
        for _ in range(ATTEMPTS):
            requests = await self._started()
            answered = await self._ask(requests, namespace, ports)
            if answered is not None:
                return judge(answered, ports)
            await self._end(requests)
        raise Unavailable("the process that enters network namespaces does not answer")

    async def _ask(self, requests: socket.socket, namespace: int, ports: tuple[int, ...]) -> Answer | None:
        """None when it has died, or stands still."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            ours.setblocking(False)
            with theirs:
                try:
                    socket.send_fds(requests, [" ".join(map(str, ports)).encode()], [namespace, theirs.fileno()])
                except OSError:
                    return None
            return await received(ours, self._answer_s)

    async def _started(self) -> socket.socket:
        async with self._starting:
            if self._requests is not None:
                return self._requests
            spawned = await asyncio.to_thread(_spawn)
            self._requests, self._process = spawned
            return spawned[0]

    async def _end(self, requests: socket.socket) -> None:
        async with self._starting:
            if self._requests is not requests:
                return
            process, self._requests, self._process = self._process, None, None
            requests.close()
            if process is not None:
                await asyncio.to_thread(_reap, process)

    async def aclose(self) -> None:
        if self._requests is not None:
            await self._end(self._requests)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _spawn() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", program()],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
            )
        except OSError as error:
            ours.close()
            raise Unavailable(f"cannot start the process that enters network namespaces: {error}") from error
    return ours, process


def program() -> str:
    """Its byte code, which importing it has just brought up to date, where there is any."""
    cached = enter.__spec__.cached
    return cached if cached and Path(cached).is_file() else str(enter.__file__)


def _reap(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
