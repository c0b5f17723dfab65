"""What every answer has, whoever gives it."""

from http import HTTPStatus
from typing import Any

from litestar.types import Send

from contracts.errors import ClocheError, NotFound

PAGES = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    b"font-src 'self' data:; connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
"""A script is never inline. Styles are: xterm.js makes `<style>` elements, whose text depends on theme and size, and
sets `style` attributes on what it draws. It takes no nonce, and there is no hash of what is not known before.
"""
DATA = b"default-src 'none'; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""What comes out of a sandbox is never a page of ours, whatever it says it is."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
FAILED = HTTPStatus.INTERNAL_SERVER_ERROR.phrase
"""As Litestar gives it for the reason of a close. The code is the same whatever it was."""
STARTS = frozenset({"http.response.start", "websocket.http.response.start", "websocket.accept"})


class Answer:
    """A `send` that adds the headers which were not given, and knows how far it came."""

    def __init__(self, send: Send, more: list[tuple[bytes, bytes]], *, is_data: bool) -> None:
        self._send = send
        self._more = [*HEADERS, *more, (b"content-security-policy", DATA if is_data else PAGES)]
        if is_data:
            self._more.append((b"cache-control", b"no-store"))
        self.status = 0
        """0 = it has not begun."""

    async def __call__(self, message: Any) -> None:
        """Raises why there is no WebSocket, where it is closed before it has begun: that would be a bare 403."""
        if message["type"] == "websocket.close" and not self.status:
            if message.get("reason") == FAILED:
                raise ClocheError("the gateway failed; its log says why")
            raise NotFound("there is no WebSocket at this address")
        if message["type"] in STARTS:
            self.status = int(message.get("status", 101))
            given = list(message.get("headers", ()))
            names = {key.lower() for key, _ in given}
            message["headers"] = [*given, *(each for each in self._more if each[0] not in names)]
        await self._send(message)
