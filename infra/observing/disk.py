"""How full the disk of the data folder is: workspaces, spools and the embedded store are on it."""

import shutil
from pathlib import Path

from contracts.errors import Unavailable
from infra.observing import catalogue
from infra.observing.polling import poll


async def watch_disk(data: Path) -> None:
    """For ever, until cancelled."""

    async def look() -> None:
        try:
            disk = shutil.disk_usage(data)
        except OSError as error:
            raise Unavailable(f"{data}: {error}") from error
        catalogue.disk_free.set(disk.free)
        catalogue.disk_size.set(disk.total)

    await poll(look)
