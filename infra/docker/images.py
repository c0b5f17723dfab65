"""The engine's images."""

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import Struct

from infra.docker.engine import ASK_S, Engine
from infra.docker.errors import NOT_FOUND, Refused, asking

PULL_S = 3600.0
SILENCE_S = 120.0
"""A pull that shows no progress for so long is given up."""

Progress = Callable[[str], None]


class ImageConfig(Struct, frozen=True, kw_only=True, rename="pascal"):
    env: tuple[str, ...] | None = None
    volumes: dict[str, msgspec.Raw] | None = None


class ImageInfo(Struct, frozen=True, kw_only=True, rename="pascal"):
    id: str
    config: ImageConfig | None = None

    @property
    def env(self) -> dict[str, str]:
        pairs = (self.config.env or ()) if self.config else ()
        return dict(pair.split("=", 1) for pair in pairs if "=" in pair)

    @property
    def volumes(self) -> tuple[str, ...]:
        """Directories that the image wants a volume of its own for."""
        return tuple((self.config.volumes or {}) if self.config else ())


class _PullStep(Struct, frozen=True, kw_only=True):
    status: str = ""
    id: str = ""


class Images:
    """Every call raises `Refused` or `Unavailable`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def inspect(self, name: str) -> ImageInfo | None:
        try:
            async with asking(f"inspect image {name}", ASK_S):
                return await self._engine.get(f"images/{name}/json", ImageInfo)
        except Refused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def pull(self, name: str, progress: Progress) -> None:
        """`progress` gets a line for each new thing that the engine does about it."""
        said = set[str]()
        async with asking(f"pull image {name}", PULL_S), asyncio.timeout(SILENCE_S) as silence:
            async for item in (await self._engine.client()).images.pull(name, stream=True):
                silence.reschedule(asyncio.get_running_loop().time() + SILENCE_S)
                step = msgspec.convert(item, _PullStep)
                line = f"{step.id} {step.status}".strip()
                if line not in said:
                    said.add(line)
                    progress(line)
