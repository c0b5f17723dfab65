"""Running commands in a sandbox straight through its init, without a keeper: what tests of the sandbox itself need."""

import asyncio
import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from contracts.spec import Resources, SandboxSpec
from infra.sandbox.base import CreateRequest, Provider
from infra.sandbox.providers import load_provider
from infra.target import LocalTarget

DEADLINE_S = 30.0


class Result(NamedTuple):
    code: int | None
    signal: int | None
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0


class Command:
    """A started command; its output goes to memory files, so nothing needs to be drained."""

    def __init__(self, connection: socket.socket, out: int, err: int) -> None:
        self._connection = connection
        self._out, self._err = out, err
        self._closed = False

    @classmethod
    def start(cls, path: str, env: dict[str, str], cwd: str, argv: list[str], stdin: bytes = b"") -> Self:
        stdio = [os.memfd_create(name) for name in ("in", "out", "err")]
        os.pwrite(stdio[0], stdin, 0)
        connection = connect(path)
        request = {"op": "start", "exec": os.urandom(8).hex(), "argv": argv, "env": env, "cwd": cwd, "pty": None}
        send(connection, request, stdio)
        answer = receive(connection)
        os.close(stdio[0])
        assert answer["ok"], answer
        return cls(connection, stdio[1], stdio[2])

    def wait(self) -> Result:
        end = receive(self._connection)["exit"]
        result = Result(end.get("code"), end.get("signal"), self.read(self._out), self.read(self._err))
        self.close()
        return result

    @staticmethod
    def read(descriptor: int) -> str:
        return os.pread(descriptor, 1 << 24, 0).decode("utf-8", "replace")

    @property
    def out(self) -> str:
        return self.read(self._out)

    def close(self) -> None:
        """Lets go of it; init kills it then if it still runs."""
        if self._closed:
            return
        self._closed = True
        self._connection.close()
        os.close(self._out)
        os.close(self._err)


def connect(path: str) -> socket.socket:
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(DEADLINE_S)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        os.close(directory)
    return connection


def send(connection: socket.socket, request: dict[str, Any], fds: list[int]) -> None:
    body = json.dumps(request).encode()
    socket.send_fds(connection, [struct.pack(">I", len(body)) + body], fds)


def receive(connection: socket.socket) -> dict[str, Any]:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            assert part, "init closed the connection"
            data += part
        return data

    answer: dict[str, Any] = json.loads(exactly(struct.unpack(">I", exactly(4))[0]))
    return answer


class Inside:
    """A running sandbox, seen by a test."""

    def __init__(self, provider: Provider, sandbox: str) -> None:
        self.provider = provider
        self.id = sandbox
        self.workspace = Path()
        self._commands: list[Command] = []

    async def begin(self) -> Self:
        await self.provider.start(self.id)
        self.workspace = Path((await self.provider.created(self.id)).host_workspace)
        return self

    async def start(self, *argv: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> Command:
        target = await self.provider.target(self.id)
        assert isinstance(target, LocalTarget)
        full = {**await self.provider.environment(self.id), **(env or {})}
        cwd = (await self.provider.created(self.id)).workspace
        command = await asyncio.to_thread(Command.start, target.socket, full, cwd, list(argv), stdin)
        self._commands.append(command)
        return command

    async def run(self, *argv: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> Result:
        command = await self.start(*argv, env=env, stdin=stdin)
        return await asyncio.to_thread(command.wait)

    async def sh(self, script: str) -> Result:
        return await self.run("/bin/sh", "-c", script)

    async def python(self, script: str) -> Result:
        return await self.run("python3", "-c", script)

    def close(self) -> None:
        for command in self._commands:
            command.close()


def request(sandbox: str, spec: SandboxSpec | None = None, **host_env: str) -> CreateRequest:
    return CreateRequest(sandbox=sandbox, node="node-1", spec=spec or SandboxSpec(), host_env=host_env)


def small(**resources: Any) -> SandboxSpec:
    return SandboxSpec(resources=Resources(**{"memory_mb": 512, "disk_mb": 1024, **resources}))


@asynccontextmanager
async def a_provider(data: Path, name: str = "local") -> AsyncIterator[Provider]:
    """Whatever a test leaves behind is removed with its data directory."""
    async with load_provider(name, data) as provider:
        try:
            yield provider
        finally:
            for sandbox in await provider.sandboxes():
                await provider.remove(sandbox)
            await provider.discard_blanks()


@asynccontextmanager
async def a_sandbox(
    data: Path, spec: SandboxSpec | None = None, name: str = "local", **host_env: str
) -> AsyncIterator[Inside]:
    async with a_provider(data, name) as provider:
        await provider.create(request("sb-1", spec, **host_env))
        inside = await Inside(provider, "sb-1").begin()
        try:
            yield inside
        finally:
            inside.close()


@contextmanager
def a_stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the host that no sandbox has anything to do with."""
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            yield stranger
        finally:
            stranger.kill()


async def until(condition: Callable[[], bool], what: str) -> None:
    """For what the kernel gives no event for; fails after a deadline instead of waiting for ever."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.005)
