"""What all followers of a node share."""

import asyncio
from typing import NamedTuple

from infra.blobs.blobs import Blobs
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.settings import Files
from infra.watching.watches import Watches
from services.file_watcher.remembered import Remembered
from services.file_watcher.texts import Texts


class Tools(NamedTuple):
    bus: Bus
    journal: Journal
    blobs: Blobs
    watches: Watches
    files: Files
    texts: Texts
    portions: asyncio.Semaphore
    """How much of all workspaces is in memory at a time."""
    remembered: Remembered
