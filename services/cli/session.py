"""A connection for one command line: to the node that is up, or to one that is started for the purpose."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from infra.client import Cloche
from infra.settings import load
from services.cli import daemon, running
from services.cli.words import say


@asynccontextmanager
async def connected(*, keep: bool = False) -> AsyncIterator[Cloche]:
    """Starts the embedded default if none is up, and ends it afterwards unless `keep`."""
    settings = load(os.environ)
    if settings.url is not None or running.find(settings.data) is not None:
        async with Cloche.connect(settings) as cloche:
            yield cloche
        return
    await daemon.start(settings)
    try:
        async with Cloche.connect(settings) as cloche:
            yield cloche
    finally:
        if keep:
            say(f"cloche is up in the background on {settings.data}; end it with `cloche down`")
        else:
            await daemon.stop(settings)
