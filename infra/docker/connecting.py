"""Finding a Docker engine, and speaking to it."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiodocker
import aiohttp

from contracts.errors import Unavailable

SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
API_VERSION = "v1.41"
"""The oldest that has all we use; engines answer to older versions than their own."""
UNIX = "unix://"


def find_engine(env: Mapping[str, str] = os.environ) -> str | None:
    """The address of the engine that the environment names, or of one whose socket is where it usually is."""
    if given := env.get("DOCKER_HOST"):
        return given
    return next((f"{UNIX}{path}" for path in SOCKETS if Path(path).is_socket()), None)


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
