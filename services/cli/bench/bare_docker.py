"""Commands in a container without Cloche: by the engine's API, and by its command line."""

import asyncio
import shutil
import time
from collections.abc import Sequence

from msgspec import Struct, field

from contracts.errors import Unavailable
from infra.docker.engine import ASK_S, Engine
from infra.docker.errors import NOT_FOUND, Refused, asking
from infra.keeper.docker.slots import FEWEST
from infra.target import DockerTarget
from services.cli.bench.bare import timed

STOCKED_S = 30.0
LOOK_S = 0.05


class _Container(Struct, frozen=True, kw_only=True):
    execs: tuple[str, ...] | None = field(name="ExecIDs")


class _Exec(Struct, frozen=True, kw_only=True):
    running: bool = field(name="Running")


class BareDocker:
    """The container of one sandbox, beside its keeper."""

    def __init__(self, engine: Engine, target: DockerTarget) -> None:
        self._engine = engine
        self._target = target

    async def by_api(self, argv: Sequence[str]) -> float:
        """Seconds to make an exec, start it, read it to its end and ask for its code.

        Raises `Unavailable` when the command fails.
        """
        began = time.perf_counter()
        async with asking("run a command", ASK_S):
            container = (await self._engine.client()).containers.container(self._target.container)
            made = await container.exec(list(argv), user=self._target.user)
            async with made.start(detach=False) as stream:
                while await stream.read_out() is not None:
                    continue
            code = (await made.inspect())["ExitCode"]
        took = time.perf_counter() - began
        if code != 0:
            raise Unavailable(f"{argv} ended with {code}")
        return took

    async def by_command_line(self, argv: Sequence[str], stdin: bytes | None = None) -> float:
        """Seconds of `docker exec`. Raises `Unavailable` when it fails."""
        flags = ["-u", self._target.user, *(["-i"] if stdin is not None else [])]
        docker = ["docker", "--host", self._target.engine, "exec", *flags, self._target.container]
        return await timed([*docker, *argv], stdin=stdin or b"")

    async def until_stocked(self) -> None:
        """Until slots wait in the container and no more are being opened.

        Raises `Unavailable` when that does not come about, as in an image without a shell.
        """
        try:
            async with asyncio.timeout(STOCKED_S):
                before: set[str] = set()
                while (now := await self._waiting()) != before or len(now) < FEWEST:
                    before = now
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise Unavailable("no slots wait in the container: has the image a shell, and `env`?") from None

    async def _waiting(self) -> set[str]:
        """All execs of the container; none while one of them has not begun or has ended."""
        async with asking("look at the container", ASK_S):
            container = await self._engine.get(f"containers/{self._target.container}/json", _Container)
            execs = container.execs or ()
            return set(execs) if all([await self._runs(each) for each in execs]) else set()

    async def _runs(self, exec_id: str) -> bool:
        try:
            return (await self._engine.get(f"exec/{exec_id}/json", _Exec)).running
        except Refused as error:
            if error.status != NOT_FOUND:
                raise
            return False


def has_command_line() -> bool:
    return shutil.which("docker") is not None
