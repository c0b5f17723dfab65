"""The gateway of a node: its socket is held here, its process is there once somebody has connected."""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contracts.errors import Unavailable
from infra.settings import Gateway, Settings
from services.cli.gateway_note import GatewayNote, note_file, write_note
from services.gateway.listening import INHERITED, address_of, bound, is_loopback
from services.gateway.starting import PARENT, START_TOKEN

logger = logging.getLogger(__name__)

LIVED_S = 30.0
"""Whatever runs so long has started well."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
GRACE_S = 10.0


@asynccontextmanager
async def gateway_of(settings: Settings) -> AsyncIterator[None]:
    """While it is open, whoever connects is served. Raises `Unavailable` where the port that was chosen is taken."""
    if not settings.gateway.enabled:
        note_file(settings.data).unlink(missing_ok=True)
        yield
        return
    token = secrets.token_urlsafe(32) if is_loopback(settings.gateway.host) else None
    with _socket(settings.gateway) as sock:
        write_note(settings.data, _note(settings.gateway, sock, token))
        serving = asyncio.create_task(_Keeping(settings, sock, token).run())
        try:
            yield
        finally:
            note_file(settings.data).unlink(missing_ok=True)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def _socket(settings: Gateway) -> socket.socket:
    try:
        return bound(settings.host, settings.port)
    except Unavailable:
        if settings.port != Gateway().port:
            raise
        return bound(settings.host, 0)


def _note(settings: Gateway, sock: socket.socket, token: str | None) -> GatewayNote:
    port: int = sock.getsockname()[1]
    other = settings.port if settings.port not in (0, port) else None
    return GatewayNote(address=address_of(settings.host, port), token=token, instead_of=other, node=os.getpid())


class _Keeping:
    def __init__(self, settings: Settings, sock: socket.socket, token: str | None) -> None:
        self._settings = settings
        self._sock = sock
        self._token = token

    async def run(self) -> None:
        """Until cancelled. A process that ended is started again when the next one connects."""
        pause = FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            await _readable(self._sock)
            begun = loop.time()
            ended = await self._served()
            pause = FIRST_PAUSE_S if loop.time() - begun > LIVED_S else min(pause * 2, LONGEST_PAUSE_S)
            logger.error("the gateway %s; it is started again for whoever connects", ended)
            await asyncio.sleep(pause)

    async def _served(self) -> str:
        """Until it has ended: how."""
        try:
            return f"ended with {await self._serve()}"
        except OSError as error:
            # Such as too many processes: that passes.
            return f"could not be started: {error}"

    async def _serve(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.gateway"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            # Ctrl-C in our terminal is for us, and we end it.
            start_new_session=True,
            pass_fds=[self._sock.fileno()],
            cwd="/",
            env=self._environment(),
        )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                await _end(process)

    def _environment(self) -> dict[str, str]:
        own = {
            "CLOCHE_DATA": str(self._settings.data),
            INHERITED: str(self._sock.fileno()),
            PARENT: str(os.getpid()),
        }
        return {**os.environ, **own} if self._token is None else {**os.environ, **own, START_TOKEN: self._token}


async def _end(process: asyncio.subprocess.Process) -> None:
    """SIGTERM, and SIGKILL when the grace is over."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _readable(sock: socket.socket) -> None:
    """Returns when a connection waits. It is not taken."""
    loop = asyncio.get_running_loop()
    waiting = asyncio.Event()
    loop.add_reader(sock.fileno(), waiting.set)
    try:
        await waiting.wait()
    finally:
        loop.remove_reader(sock.fileno())
