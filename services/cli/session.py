"""A connection for one command line: to the node that is up, or to one that is started for the purpose."""

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from infra.client import Cloche
from infra.configuration import load
from infra.embedded.store import prepare
from infra.settings import Settings
from services.cli import daemon, running
from services.cli.gaps import told_at_the_end
from services.cli.words import say


@asynccontextmanager
async def connected(*, keep: bool = False) -> AsyncIterator[Cloche]:
    """Starts the embedded default if none is up. The last command line that used such a node ends it, unless `keep`."""
    # Our stderr is the command's: what the connection has to say of itself must not stand between its lines.
    logging.getLogger("infra").addHandler(logging.NullHandler())
    settings = load(os.environ)
    with told_at_the_end():
        if settings.url is not None:
            async with Cloche.connect(settings) as cloche:
                yield cloche
            return
        prepare(settings.data)
        async with _sharing(settings, keep=keep), Cloche.connect(_at_its_node(settings)) as cloche:
            yield cloche


def _at_its_node(settings: Settings) -> Settings:
    """A server that was killed comes back at the address that its node has noted: whoever connects waits for it."""
    node = running.find(settings.data)
    return settings if node is None else replace(settings, url=node.url)


def passing(data: Path) -> Path:
    """Is there while the node that is up was started for command lines, and goes with the last of them."""
    return data / "run" / "passing"


@asynccontextmanager
async def _sharing(settings: Settings, *, keep: bool) -> AsyncIterator[None]:
    users = os.open(settings.data / "run" / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        await asyncio.to_thread(fcntl.flock, users, fcntl.LOCK_SH)
        await _ensure_node(settings)
        try:
            yield
        finally:
            if passing(settings.data).exists():
                await _leave(settings, users, keep=keep)
    finally:
        os.close(users)


async def _ensure_node(settings: Settings) -> None:
    starting = os.open(settings.data / "run" / "starting.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        await asyncio.to_thread(fcntl.flock, starting, fcntl.LOCK_EX)
        if running.find(settings.data) is None:
            passing(settings.data).touch()
            await daemon.start(settings)
    finally:
        os.close(starting)


async def _leave(settings: Settings, users: int, *, keep: bool) -> None:
    if keep:
        passing(settings.data).unlink(missing_ok=True)
        say(f"cloche is up in the background on {settings.data}; end it with `cloche down`")
        return
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    # Whoever comes now waits for the lock, and then starts a node of its own.
    await daemon.stop(settings)
    passing(settings.data).unlink(missing_ok=True)
