"""A node in the background: started, told when ready, ended."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from contracts.errors import Unavailable
from infra.embedded import endpoint
from infra.embedded.process import wait_end
from infra.embedded.server import EmbeddedServer
from infra.embedded.store import prepare
from infra.settings import Settings
from services.cli.running import Running, find

READY = b"ready\n"
STOP_S = 30.0


def log_file(data: Path) -> Path:
    return data / "up.log"


async def start(settings: Settings) -> Running:
    """Start a node of its own session, and return when it takes orders.

    Raises `Invalid` for a directory that cannot be used, `Unavailable` with the last words of a node that failed.
    """
    prepare(settings.data)
    read, write = os.pipe()
    os.set_inheritable(write, True)
    with open(log_file(settings.data), "ab") as log:  # noqa: PTH123, ASYNC230  a path for a child, opened once
        subprocess.Popen(  # noqa: ASYNC220  returns at once
            [sys.executable, "-m", "services.cli", "up", "--ready-fd", str(write)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[write],
            cwd="/",
            env={**os.environ, "CLOCHE_DATA": str(settings.data)},
        )
    os.close(write)
    try:
        said = await asyncio.to_thread(_read_all, read)
    finally:
        os.close(read)
    running = find(settings.data)
    if not said.startswith(READY) or running is None:
        words = said.decode("utf-8", "replace").strip() or f"see {log_file(settings.data)}"
        raise Unavailable(f"could not start: {words}")
    return running


def _read_all(descriptor: int) -> bytes:
    said = b""
    while chunk := os.read(descriptor, 65_536):
        said += chunk
    return said


async def stop(settings: Settings) -> bool:
    """End the node, and a server that a killed node left behind. False when nothing was running."""
    running = find(settings.data)
    if running is not None:
        os.kill(running.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S):
                await wait_end(running.identity)
        except TimeoutError:
            raise Unavailable(f"process {running.pid} does not end; its log: {log_file(settings.data)}") from None
        return True
    return await _stop_orphan(settings)


async def _stop_orphan(settings: Settings) -> bool:
    if endpoint.find(settings.data) is None:
        return False
    server = EmbeddedServer.of(settings)
    await server.start()
    await server.stop()
    return True
