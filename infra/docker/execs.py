"""Processes that an engine starts in a container beside its first one, and the connections that carry their bytes."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiodocker

from contracts.errors import ClocheError, SandboxInvalidState, SandboxNotFound, Unavailable
from infra.docker.connecting import API_VERSION
from infra.docker.errors import Refused, asking
from infra.docker.finding import UNIX
from infra.docker.instance import instance_of

CALL_S = 20.0
"""The longest that one call to the engine may take."""
DETACH_KEYS = "ctrl-@,ctrl-^,ctrl-@,ctrl-_,ctrl-@,ctrl-^"
"""The engine cannot be told to have none, and its usual ones begin with a key that shells use (ctrl-p)."""
HEAD_LIMIT = 64 * 1024


class ExecState(NamedTuple):
    running: bool
    code: int | None
    pid: int
    """As the host counts; 0 where the process never began."""


class ContainerState(NamedTuple):
    running: bool
    paused: bool
    instance: str


class Attached(NamedTuple):
    """A started exec: its bytes go both ways over this socket, framed unless it has a terminal."""

    sock: socket.socket
    early: bytes
    """What came with the engine's answer, before anything else is read."""


class Execs:
    """Every method raises `Unavailable` where the engine does not answer in time, `SandboxNotFound` for what it does
    not know, and `SandboxInvalidState` where the container is stopped or paused.
    """

    def __init__(self, address: str, docker: aiodocker.Docker) -> None:
        self._path = address.removeprefix(UNIX)
        self._docker = docker

    async def create(
        self,
        container: str,
        argv: Sequence[str],
        *,
        user: str,
        env: Sequence[str] = (),
        cwd: str | None = None,
        tty: bool = False,
    ) -> str:
        """Makes an exec with its stdin, stdout and stderr attached; nothing runs yet. Gives its id."""
        async with _asking("make an exec"):
            made = await self._docker.containers.container(container).exec(
                list(argv),
                stdin=True,
                tty=tty,
                user=user,
                environment=list(env),
                workdir=cwd,
                detach_keys=DETACH_KEYS if tty else None,
            )
        return made.id

    async def attach(self, exec_id: str, *, tty: bool = False) -> Attached:
        """Starts an exec. That it did not begin is told in its stream, and in what `inspect` says.

        With a socket of our own: closing one direction and large reads need it, and an HTTP client has no place
        for a connection that stops being HTTP.
        """
        body = json.dumps({"Detach": False, "Tty": tty}).encode()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            async with _asking("start an exec"):
                return await self._upgrade(sock, f"/{API_VERSION}/exec/{exec_id}/start", body)
        except BaseException:
            sock.close()
            raise

    async def _upgrade(self, sock: socket.socket, path: str, body: bytes) -> Attached:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, self._path)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        await loop.sock_sendall(sock, head.encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < HEAD_LIMIT:
            if not (more := await loop.sock_recv(sock, HEAD_LIMIT)):
                raise ConnectionResetError("the engine closed the connection")
            answer += more
        first, _, rest = answer.partition(b"\r\n\r\n")
        status = first.split(b" ", 2)[1:2]
        if status != [b"101"]:
            raise _as_error(int(status[0]) if status and status[0].isdigit() else 500, _message(rest))
        return Attached(sock, rest)

    async def inspect(self, exec_id: str) -> ExecState:
        async with _asking("look at an exec"):
            said = await self._docker.containers.exec(exec_id).inspect()
        return ExecState(bool(said["Running"]), said["ExitCode"], int(said["Pid"] or 0))

    async def resize(self, exec_id: str, rows: int, cols: int) -> None:
        async with _asking("resize a terminal"):
            await self._docker.containers.exec(exec_id).resize(h=rows, w=cols)

    async def container(self, container: str) -> ContainerState:
        async with _asking("look at a container"):
            said = await self._docker.containers.container(container).show()
        state = said["State"]
        return ContainerState(bool(state["Running"]), bool(state["Paused"]), instance_of(container, state["StartedAt"]))

    async def host_pids(self, container: str) -> list[int]:
        """Of the container's processes, as the engine's host counts."""
        async with _asking("list the processes of a container"):
            said = await self._docker.containers.container(container).top(ps_args="-eo pid")
        return [int(row[0]) for row in said["Processes"] or [] if row and row[0].isdigit()]


@asynccontextmanager
async def _asking(what: str) -> AsyncIterator[None]:
    try:
        async with asking(what, CALL_S):
            yield
    except Refused as error:
        raise _as_error(error.status, error.message) from error


def _as_error(status: int, message: str) -> ClocheError:
    kinds: dict[int, type[ClocheError]] = {404: SandboxNotFound, 409: SandboxInvalidState}
    return kinds.get(status, Unavailable)(f"the engine: {message}")


def _message(body: bytes) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(body)["message"])
    return body[:200].decode("utf-8", "replace").strip() or "no reason given"
