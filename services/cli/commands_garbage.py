"""`gc`: room for what is still wanted."""

import asyncio
import os

import typer

from infra.access import open_as
from infra.configuration import load
from infra.manifest.garbage import Swept, collect_garbage
from infra.realms import parts
from infra.settings import Settings
from services.cli.session import connected


def register(app: typer.Typer) -> None:
    app.command("gc")(gc)


def gc() -> None:
    """Remove contents of files that no event refers to any more. A node that is up does it by itself, now and then.

    Nothing that the log still names is touched: the log forgets only by its own limits (`limits.log_max_age_s`).
    """

    async def go() -> list[Swept]:
        async with connected():
            return [await _sweep(part) for part in parts(load(os.environ))]

    for swept in asyncio.run(go()):
        unfinished = f" and {swept.leftovers} unfinished uploads" if swept.leftovers else ""
        print(f"removed {swept.removed} blobs of {swept.bytes} bytes{unfinished}, kept {swept.kept}")


async def _sweep(settings: Settings) -> Swept:
    async with open_as(settings, "file_watcher") as bus:
        return await collect_garbage(bus, settings.data / "run")
