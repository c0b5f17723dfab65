"""Running commands in a sandbox through a keeper of the test's own, in the test's own process."""

import asyncio
import itertools
import secrets
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import msgspec

from contracts.spec import CopyDirectory, Isolation, Resources, SandboxSpec
from infra.keeper.frame import Frame, Kind
from infra.keeper.keeper import Keeper
from infra.keeper.layout import Layout
from infra.keeper.outcome import Exit
from infra.keeper.protocol import PtySize, Scope, Signal, Start, Write
from infra.keeper.spool import SpoolReader
from infra.sandbox.base import CreateRequest, Provider
from infra.sandbox.providers import load_provider
from tests.conformance.projects import plain_project
from tests.conformance.tiers import require
from tests.images import debian

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
    """A started command, on the record of the test's own keeper."""

    def __init__(self, keeper: Keeper, directory: Path, exec_id: str) -> None:
        self._keeper = keeper
        self._directory = directory
        self.exec_id = exec_id

    async def wait(self) -> Result:
        """Until its own process has ended. Raises AssertionError with the reason where it did not begin."""
        record = self._keeper.record(self.exec_id)
        while not record.exited:
            await record.wait_beyond(record.size)
        frames = self._frames()
        refused = [frame.payload for frame in frames if frame.kind in (Kind.FAILED, Kind.LOST)]
        assert not refused, refused
        end = msgspec.json.decode(self._payload(Kind.EXIT), type=Exit)
        return Result(end.code, end.signal, self.out, self.err)

    @property
    def out(self) -> str:
        return (self._payload(Kind.STDOUT) + self._payload(Kind.PTY)).decode("utf-8", "replace")

    @property
    def err(self) -> str:
        return self._payload(Kind.STDERR).decode("utf-8", "replace")

    async def signal(self, number: int, scope: Scope = "tree") -> int:
        execution = self._keeper.execution(self.exec_id)
        return (
            0
            if execution is None
            else await execution.signal(Signal(id=0, exec=self.exec_id, signum=number, scope=scope))
        )

    def write(self, data: bytes, *, eof: bool = False) -> None:
        execution = self._keeper.execution(self.exec_id)
        assert execution is not None
        assert execution.write(Write(id=0, exec=self.exec_id, data=data, eof=eof)).accepted

    def _frames(self) -> list[Frame]:
        return list(SpoolReader(self._directory).frames())

    def _payload(self, kind: Kind) -> bytes:
        return b"".join(frame.payload for frame in self._frames() if frame.kind == kind)


class Inside:
    """A running sandbox, seen by a test, with a keeper of its own."""

    def __init__(self, provider: Provider, sandbox: str) -> None:
        self.provider = provider
        self.id = sandbox
        self.workspace = Path()
        self._home = TemporaryDirectory(prefix="cloche-inside-")
        self._layout = Layout.of(Path(self._home.name))
        self._layout.prepare()
        self._keeper = Keeper(self._layout, "inside")
        self._numbers = itertools.count()
        _open.append(self)

    async def begin(self) -> Self:
        await self.provider.start(self.id)
        self.workspace = Path((await self.provider.created(self.id)).host_workspace)
        return self

    async def start(
        self, *argv: str, env: dict[str, str] | None = None, stdin: bytes | None = None, pty: PtySize | None = None
    ) -> Command:
        """With `stdin`, it gets these bytes and stays open; without, it is at its end."""
        exec_id = f"inside-{secrets.token_hex(4)}-{next(self._numbers)}"
        request = Start(
            id=0,
            exec=exec_id,
            target=await self.provider.target(self.id),
            argv=argv,
            env={**await self.provider.environment(self.id), **(env or {})},
            cwd=(await self.provider.created(self.id)).workspace,
            stdin=stdin is not None,
            pty=pty,
        )
        await self._keeper.start(request)
        command = Command(self._keeper, self._layout.exec_dir(exec_id), exec_id)
        if stdin:
            command.write(stdin)
        return command

    async def run(self, *argv: str, env: dict[str, str] | None = None, stdin: bytes | None = None) -> Result:
        command = await self.start(*argv, env=env, stdin=stdin)
        if stdin is not None:
            command.write(b"", eof=True)
        return await command.wait()

    async def sh(self, script: str) -> Result:
        return await self.run("/bin/sh", "-c", script)

    async def python(self, script: str) -> Result:
        return await self.run("python3", "-c", script)

    async def aclose(self) -> None:
        """What still runs is killed."""
        if self in _open:
            _open.remove(self)
            await self._keeper.aclose()
            self._home.cleanup()


_open: list[Inside] = []
"""Closed with the provider that they belong to, for a test that does not do so itself."""


def request(sandbox: str, spec: SandboxSpec | None = None, on: str = "local", **host_env: str) -> CreateRequest:
    return CreateRequest(sandbox=sandbox, node="node-1", spec=spec_on(on, spec), host_env=host_env)


def spec_on(tier: str, spec: SandboxSpec | None = None) -> SandboxSpec:
    spec = msgspec.structs.replace(spec or SandboxSpec(), isolation=Isolation(tier))
    if tier == Isolation.DOCKER:
        return msgspec.structs.replace(spec, docker=msgspec.structs.replace(spec.docker, image=debian()))
    if tier == Isolation.DEVCONTAINER and spec.workspace.source is None:
        source = CopyDirectory(path=str(plain_project()))
        return msgspec.structs.replace(spec, workspace=msgspec.structs.replace(spec.workspace, source=source))
    return spec


def small(**resources: Any) -> SandboxSpec:
    return SandboxSpec(resources=Resources(**{"memory_mb": 512, "disk_mb": 1024, **resources}))


@asynccontextmanager
async def a_provider(data: Path, name: str = "local") -> AsyncIterator[Provider]:
    """Whatever a test leaves behind is removed with its data directory."""
    require(name)
    async with load_provider(name, data) as provider:
        try:
            yield provider
        finally:
            for inside in [each for each in _open if each.provider is provider]:
                await inside.aclose()
            for sandbox in await provider.sandboxes():
                await provider.remove(sandbox)
            await provider.discard_blanks()


@asynccontextmanager
async def a_sandbox(
    data: Path, spec: SandboxSpec | None = None, name: str = "local", **host_env: str
) -> AsyncIterator[Inside]:
    async with a_provider(data, name) as provider:
        await provider.create(request("sb-1", spec, name, **host_env))
        inside = await Inside(provider, "sb-1").begin()
        try:
            yield inside
        finally:
            await inside.aclose()


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
