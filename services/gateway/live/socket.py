"""A WebSocket, in our words."""

from collections.abc import Sequence
from typing import Any

from litestar import WebSocket
from litestar.exceptions import WebSocketDisconnect
from msgspec import Struct

from contracts.access import Principal
from contracts.errors import ClocheError
from contracts.http.problems import MEDIA_TYPE
from services.gateway import metrics
from services.gateway.live.ending import Left
from services.gateway.live.frames import encode
from services.gateway.live.items import Item, header_of
from services.gateway.live.protocols import WIRE
from services.gateway.problems import headers_of, problem_of

LONGEST_REASON = 120
"""Bytes: a close frame has room for 123."""


class Socket:
    """Whatever is sent waits until the client has taken what was sent before. Raises `Left` and `TakesNothing`."""

    def __init__(self, socket: WebSocket[Principal, Any, Any]) -> None:
        self._socket = socket

    async def accept(self) -> None:
        await self._socket.receive()
        await self._send({"type": "websocket.accept"})

    async def refuse(self, error: ClocheError) -> None:
        """Instead of `accept`: an answer as to any other request."""
        metrics.refused(error)
        body = encode(problem_of(error, self._socket.scope["path"]))
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        headers += [(key.encode(), value.encode()) for key, value in headers_of(error).items()]
        await self._send({"type": "websocket.http.response.start", "status": error.http_status, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": body})

    async def tell(self, frame: Struct) -> None:
        body = encode(frame)
        await self._send({"type": "websocket.send", WIRE: (header_of(len(body)), body)})

    async def pass_on(self, items: Sequence[Item]) -> None:
        pieces = [piece for item in items for piece in (item.header, item.body)]
        await self._send({"type": "websocket.send", WIRE: pieces})

    async def close(self, code: int, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason[:LONGEST_REASON]})

    async def heard(self) -> str | None:
        """The next text that the client sends; None for what is no text. Raises `Left`."""
        try:
            message: Any = await self._socket.receive()
        except WebSocketDisconnect:
            raise Left from None
        if message["type"] != "websocket.receive":
            raise Left
        text: str | None = message.get("text")
        return text

    async def _send(self, message: Any) -> None:
        try:
            await self._socket.send(message)
        except (OSError, WebSocketDisconnect):
            raise Left from None
