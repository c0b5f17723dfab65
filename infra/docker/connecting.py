"""Speaking to a Docker engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiodocker
import aiohttp

from contracts.errors import Unavailable
from infra.docker.finding import UNIX

API_VERSION = "v1.41"
"""The oldest that has all we use; engines answer to older versions than their own."""


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[aiodocker.Docker]:
    """Raises `Unavailable` for an address that is no unix socket; nothing is asked of the engine yet."""
    if not address.startswith(UNIX):
        raise Unavailable(f"only an engine on a unix socket can be used, not {address!r}")
    # Its default of 100 connections would make the 101st attached command wait for ever.
    async with (
        aiohttp.UnixConnector(path=address.removeprefix(UNIX), limit=0) as connector,
        aiohttp.ClientSession(connector=connector) as session,
        # The engine's own version: newer engines refuse what old ones need.
        aiodocker.Docker(url=f"{UNIX}localhost", connector=connector, session=session, api_version="auto") as docker,
    ):
        yield docker
