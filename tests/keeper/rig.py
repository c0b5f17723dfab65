"""A real keeper and a real init, bare on the host, for one test."""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import psutil

from infra.keeper.client import KeeperClient
from infra.keeper.frame import Frame, Kind
from infra.keeper.launcher import ensure_keeper
from infra.keeper.layout import Layout
from infra.keeper.outcome import Exit, Failed, Lost
from infra.keeper.protocol import PtySize
from infra.keeper.spool import SpoolReader
from infra.target import DockerTarget, LocalTarget
from infra.unix_socket import short_address

ROOT = Path(__file__).parents[2]
INIT = ROOT / "infra/sandbox/local/init.py"
T = TypeVar("T", bound=LocalTarget | DockerTarget)
INSTANCE = "nonce"
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Result(msgspec.Struct, kw_only=True):
    frames: list[Frame]

    def stream(self, kind: Kind) -> bytes:
        return b"".join(frame.payload for frame in self.frames if frame.kind == kind)

    @property
    def stdout(self) -> bytes:
        return self.stream(Kind.STDOUT)

    @property
    def kinds(self) -> list[Kind]:
        return [frame.kind for frame in self.frames]

    @property
    def exit(self) -> Exit:
        return msgspec.json.decode(self.stream(Kind.EXIT), type=Exit)

    @property
    def lost(self) -> Lost:
        return msgspec.json.decode(self.stream(Kind.LOST), type=Lost)

    @property
    def failed(self) -> Failed:
        return msgspec.json.decode(self.stream(Kind.FAILED), type=Failed)


class Rig(Generic[T]):
    init: subprocess.Popen[bytes]

    def __init__(self, data: Path, client: KeeperClient, target: T) -> None:
        self.data = data
        self.client = client
        self.target = target
        self._numbers = itertools.count()

    async def start(
        self, *argv: str, exec_id: str | None = None, cwd: str = "/", rows: int | None = None, stdin: bool = False
    ) -> str:
        exec_id = exec_id or f"e{next(self._numbers)}"
        pty = None if rows is None else PtySize(rows=rows, cols=80)
        await self.client.start(exec_id, self.target, argv, env=ENV, cwd=cwd, pty=pty, stdin=stdin)
        return exec_id

    def frames(self, exec_id: str, position: int = 0) -> list[Frame]:
        return list(SpoolReader(Layout.of(self.data).exec_dir(exec_id)).frames(position))

    async def final(self, exec_id: str) -> Result:
        size = 0
        while not (grown := await self.client.wait(exec_id, size)).final:
            size = grown.size
        return Result(frames=self.frames(exec_id))

    async def until(self, exec_id: str, holds: Callable[[Result], bool]) -> Result:
        """The record, once something holds for it."""
        while not holds(result := Result(frames=self.frames(exec_id))):
            size = result.frames[-1].next_position if result.frames else 0
            await self.client.wait(exec_id, size)
        return result

    async def run(self, *argv: str, cwd: str = "/") -> Result:
        return await self.final(await self.start(*argv, cwd=cwd))

    async def shell(self, script: str) -> Result:
        return await self.run("sh", "-c", script)

    async def kill_keeper(self) -> None:
        pid = (await self.client.hello()).pid
        pidfd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        await gone(pidfd)
        await self.client.aclose()

    async def new_keeper(self) -> None:
        await self.client.aclose()
        self.client = await ensure_keeper(self.data)

    async def keeper(self) -> psutil.Process:
        return psutil.Process((await self.client.hello()).pid)


async def gone(pidfd: int) -> None:
    """Until the process has ended, also while nobody has reaped it yet. Closes the descriptor."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(pidfd, ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(pidfd)
    os.close(pidfd)


async def eventually(holds: Callable[[], bool]) -> None:
    """For what the system gives no event for."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in 10 s"
        await asyncio.sleep(0.005)


def start_init(path: Path) -> subprocess.Popen[bytes]:
    listener = socket.socket(socket.AF_UNIX)
    with short_address(path) as address:
        listener.bind(address)
    arguments = ["--socket-fd", str(listener.fileno()), "--instance", INSTANCE, "--grace", "1"]
    command = [sys.executable, "-I", "-S", "-B", str(INIT), *arguments]
    process = subprocess.Popen(command, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL)
    listener.close()
    return process


@contextlib.asynccontextmanager
async def rig() -> AsyncIterator[Rig[LocalTarget]]:
    with tempfile.TemporaryDirectory() as name:
        socket_path = Path(name) / "init.sock"
        init = start_init(socket_path)
        try:
            await eventually(lambda: listens(socket_path))
            target = LocalTarget(socket=str(socket_path), instance=INSTANCE)
            async with keeper_of(Path(name) / "data", target) as made:
                made.init = init
                yield made
                await ended(init)
        finally:
            await ended(init)


async def ended(init: subprocess.Popen[bytes]) -> None:
    init.terminate()
    await asyncio.to_thread(init.wait)


@contextlib.asynccontextmanager
async def keeper_of(data: Path, target: T) -> AsyncIterator[Rig[T]]:
    """A keeper of its own for a sandbox that is there."""
    made = Rig(data, await ensure_keeper(data), target)
    try:
        yield made
    finally:
        await made.new_keeper()
        gone_when = os.pidfd_open((await made.client.hello()).pid)
        await made.client.shutdown(force=True)
        await made.client.aclose()
        await gone(gone_when)


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe, short_address(path) as address:
        return probe.connect_ex(address) == 0
