"""The web server around the application."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn
from litestar.types import ASGIApp

from infra.service import Ready
from infra.settings import Gateway
from services.gateway.live.protocols import patient_http, patient_socket

MAX_FRAME = 1 << 20
"""Of what a WebSocket client may send at a time."""
LET_GO_S = 5


class _Server(uvicorn.Server):
    """Signals are for whoever runs the service."""

    def __init__(self, config: uvicorn.Config, ready: Ready) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_web(app: ASGIApp, sock: socket.socket, settings: Gateway, ready: Ready) -> None:
    """Until cancelled; then those who follow are let go first."""
    # What it says of less than that are addresses as they came, and the one of a WebSocket may have a token.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        http=patient_http(settings.slow_s),
        ws=patient_socket(settings.slow_s),
        ws_max_size=MAX_FRAME,
        ws_per_message_deflate=False,
        # Those who follow are told that all is well often enough, and their answers could wait behind much.
        ws_ping_interval=None,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=LET_GO_S,
    )
    server = _Server(config, ready)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving
