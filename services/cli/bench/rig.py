"""A node of its own for the measurements, as `cloche up` runs it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.progress import Progress

from contracts.errors import Invalid, Unavailable
from contracts.spec import Isolation
from infra.access import open_as
from infra.bus.connection import Bus
from infra.client import Cloche
from infra.configuration import CONFIG_FILE, load
from infra.docker.engine import Engine
from infra.docker.finding import find_engine
from infra.keeper.client import KeeperClient
from infra.keeper.launcher import end_keeper
from infra.sandbox.base import Provider
from infra.sandbox.docker.blanks import Blanks
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.making import Maker
from infra.sandbox.docker.sweeping import Sweeper
from infra.sandbox.providers import load_providers
from infra.settings import Settings
from services.cli import daemon, running

EGRESS = """
[egress]
networks = ["127.7.0.0/16"]
requests_per_s = 1000000
burst = 1000000
"""
"""What is fetched from sandboxes is local, and no limit is to be measured."""
REMOVED_AT_ONCE = 8
"""Removing waits for processes to end: a thousand, one after the other, take minutes."""


class Rig(Struct, frozen=True, kw_only=True):
    settings: Settings
    cloche: Cloche
    admin: Bus
    """For the bare alternatives: it may make a stream of its own."""
    progress: Progress
    processes: tuple[int, ...]
    """The services, executor among them, and the keeper."""


def settings_in(data: Path, image: str | None = None, more: str = "") -> Settings:
    """What a process with this CLOCHE_DATA will read: containers of an image, else local sandboxes; `more` is TOML.

    Raises `Invalid` where that would be somebody else's server, or the environment says otherwise.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    kind = 'isolation = "local"' if image is None else f'isolation = "docker"\ndocker = {{ image = {_quoted(image)} }}'
    (data / CONFIG_FILE).write_text(f"{more}\n[sandbox]\n{kind}\n{EGRESS}")
    settings = load({**os.environ, "CLOCHE_DATA": str(data)})
    if settings.url is not None or settings.data != data.absolute():
        raise Invalid("benchmarks run on a server of their own: unset CLOCHE_URL and CLOCHE_CONFIG")
    if settings.sandbox.isolation != (Isolation.LOCAL if image is None else Isolation.DOCKER):
        raise Invalid("benchmarks choose the isolation themselves: unset CLOCHE_ISOLATION")
    return settings


def _quoted(text: str) -> str:
    """JSON's strings are TOML's too."""
    return msgspec.json.encode(text).decode()


@asynccontextmanager
async def running_node(
    data: Path, progress: Progress, image: str | None = None, *, more: str = ""
) -> AsyncIterator[Rig]:
    """Nothing of it is left afterwards but the directory."""
    settings = settings_in(data, image, more)
    try:
        await daemon.start(settings)
        async with Cloche.connect(settings) as cloche, open_as(settings, "admin") as admin:
            processes = (await _node_process(settings), await _keeper_process(settings))
            yield Rig(settings=settings, cloche=cloche, admin=admin, progress=progress, processes=processes)
    finally:
        await end_node(settings)


async def end_node(settings: Settings) -> None:
    """Ends the services, every sandbox of the directory and the keeper."""
    await daemon.stop(settings)
    async with load_providers(settings.data) as providers:
        for provider in providers.values():
            await _remove_all(provider)
            await provider.discard_blanks()
    if settings.sandbox.isolation == Isolation.DOCKER:
        await _sweep_containers(settings.data)
    await end_keeper(settings.data, force=True)


async def _remove_all(provider: Provider) -> None:
    places = asyncio.Semaphore(REMOVED_AT_ONCE)

    async def remove(sandbox: str) -> None:
        async with places:
            await provider.remove(sandbox)

    async with asyncio.TaskGroup() as tasks:
        for sandbox in await provider.sandboxes():
            tasks.create_task(remove(sandbox))


async def _sweep_containers(data: Path) -> None:
    """However young: a node that ends while it makes a blank leaves a container that has no record yet."""
    files = DataFiles(await asyncio.to_thread(data.resolve))
    async with Engine(find_engine()) as engine:
        maker = Maker(engine, files)
        await Sweeper(engine, maker, files, Blanks(maker, files)).sweep(young_s=0)


async def _node_process(settings: Settings) -> int:
    node = running.find(settings.data)
    if node is None:
        raise Unavailable(f"the node has ended; its log: {daemon.log_file(settings.data)}")
    return node.pid


async def _keeper_process(settings: Settings) -> int:
    async with await KeeperClient.connect(settings.data) as keeper:
        return (await keeper.hello()).pid
