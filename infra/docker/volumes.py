"""Named volumes that are directories of the host."""

import datetime

import msgspec
from aiodocker.volumes import DockerVolume
from msgspec import Struct

from infra.docker.engine import ASK_S, Engine
from infra.docker.errors import NOT_FOUND, Refused, asking


class VolumeInfo(Struct, frozen=True, kw_only=True, rename="pascal"):
    name: str
    created_at: datetime.datetime | None = None
    labels: dict[str, str] | None = None


class _Listed(Struct, frozen=True, kw_only=True, rename="pascal"):
    volumes: tuple[VolumeInfo, ...] | None = None


class Volumes:
    """Every call raises `Refused` or `Unavailable`; what is there or gone already is fine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def create(self, name: str, directory: str, labels: dict[str, str]) -> None:
        body = {
            "Name": name,
            "Driver": "local",
            "DriverOpts": {"type": "none", "o": "bind", "device": directory},
            "Labels": labels,
        }
        async with asking(f"make the volume {name}", ASK_S):
            await (await self._engine.client()).volumes.create(body)  # type: ignore[no-untyped-call]

    async def labelled(self, label: str, value: str) -> tuple[VolumeInfo, ...]:
        wanted = msgspec.json.encode({"label": [f"{label}={value}"]}).decode()
        async with asking("list volumes", ASK_S):
            return (await self._engine.get("volumes", _Listed, filters=wanted)).volumes or ()

    async def remove(self, name: str) -> None:
        """The directory stays."""
        try:
            async with asking(f"remove the volume {name}", ASK_S):
                await DockerVolume(await self._engine.client(), name).delete()  # type: ignore[no-untyped-call]
        except Refused as error:
            if error.status != NOT_FOUND:
                raise
