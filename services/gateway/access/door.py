"""Everything that comes in passes here first: which name, which page, who, how often."""

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send
from litestar.utils import normalize_path

from contracts.access import Principal
from contracts.errors import ClocheError, Invalid, Unauthenticated
from contracts.http.problems import MEDIA_TYPE
from infra import asking
from infra.tokens.tokens import LEEWAY_S
from services.gateway import metrics
from services.gateway.access.answer import Answer
from services.gateway.access.gate import Gate, forget_address_token
from services.gateway.access.limits import Limits
from services.gateway.access.origins import Origins
from services.gateway.access.requests import tell_request
from services.gateway.access.sharing import PREFLIGHT, is_preflight, sharing_headers
from services.gateway.live.ending import TOKEN_EXPIRED
from services.gateway.problems import headers_of, problem_of

PRIVATE = ("/api/", "/ws/", "/metrics/")
OPEN = frozenset({"/api/openapi.json"})
SESSION = "/api/v1/session"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
PUBLIC_S = 30.0
"""For whoever has shown no token: also for the rest of their request to come."""


class Door:
    """Around the whole application, so that also what it knows nothing of is refused in our words."""

    def __init__(self, app: ASGIApp, gate: Gate, origins: Origins, limits: Limits) -> None:
        self._app = app
        self._gate = gate
        self._origins = origins
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        told: MutableMapping[str, Any] = scope  # type: ignore[assignment]
        # As the application will read it: a path that only looks like none of ours must not pass us by.
        told["path"] = normalize_path(scope["path"])
        begun, begun_ns = time.perf_counter(), time.time_ns()
        trace = asking.traced(given := _traceparent(scope))
        asking.traceparent.set(trace)
        more = [(b"traceparent", trace.encode()), *sharing_headers(scope, self._origins)]
        answer = Answer(send, more, is_data=scope["path"].startswith("/api/"))
        try:
            await self._pass(scope, receive, answer)
        except ClocheError as error:
            if answer.status:
                raise
            await _refuse(scope, answer, error)
        finally:
            route = scope.get("path_template") or metrics.UNKNOWN
            tell_request(_method(scope) or "WS", route, answer.status, trace, given, begun_ns)
            if scope["type"] == ScopeType.HTTP:
                metrics.answered(_method(scope), route, answer.status or 500, time.perf_counter() - begun)

    async def _pass(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        """Raises what keeps it out, while nothing is answered yet."""
        self._origins.check_host(scope)
        if not _is_private(scope):
            self._limits.check_address(scope)
            await self._serve_anybody(scope, receive, answer)
        elif is_preflight(scope):
            self._limits.check_address(scope)
            await _answer(scope, answer, 200, PREFLIGHT)
        else:
            await self._serve(scope, receive, answer, self._admitted(scope))

    def _admitted(self, scope: Scope) -> Principal:
        presented = self._gate.presented(scope)
        principal = self._identified(scope, presented.token)
        is_websocket = scope["type"] == ScopeType.WEBSOCKET
        if presented.by_cookie:
            self._origins.check_cookie(scope, changing=is_websocket or _method(scope) not in SAFE)
        elif is_websocket:
            self._origins.check_page(scope)
        # Last: a page of elsewhere must not use up what somebody may ask.
        self._limits.check(principal)
        if is_websocket:
            forget_address_token(scope)
        told: MutableMapping[str, Any] = scope  # type: ignore[assignment]
        told["user"] = principal
        asking.source.set(principal.source)
        return principal

    def _identified(self, scope: Scope, token: str) -> Principal:
        try:
            return self._gate.named_by(token)
        except Unauthenticated:
            self._limits.failed(scope)
            raise

    async def _serve_anybody(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        try:
            async with asyncio.timeout(PUBLIC_S) as limit:
                await self._app(scope, receive, answer)
        except TimeoutError:
            if not limit.expired() or answer.status:
                raise
            raise Invalid(f"the request was not all there within {PUBLIC_S:g} s") from None

    async def _serve(self, scope: Scope, receive: Receive, answer: Answer, principal: Principal) -> None:
        """What takes long, as following does, ends with the token that it was begun with."""
        ends = None if principal.expires_at is None else principal.expires_at + LEEWAY_S - time.time()
        try:
            async with asyncio.timeout(ends) as limit:
                await self._app(scope, receive, answer)
        except TimeoutError:
            if not limit.expired():
                raise
            await _end(scope, answer)


async def _end(scope: Scope, answer: Answer) -> None:
    """Raises `Unauthenticated`: where an answer has begun, so that nobody takes the part of it for all of it."""
    if scope["type"] != ScopeType.WEBSOCKET or answer.status == 0:
        raise Unauthenticated("the token has expired meanwhile")
    await answer({"type": "websocket.close", "code": TOKEN_EXPIRED, "reason": "the token has expired"})


def _is_private(scope: Scope) -> bool:
    path = scope["path"]
    if path in OPEN or (path == SESSION and _method(scope) == "POST"):
        return False
    return scope["type"] == ScopeType.WEBSOCKET or f"{path}/".startswith(PRIVATE)


def _method(scope: Scope) -> str:
    return str(scope.get("method", ""))


def _traceparent(scope: Scope) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == b"traceparent"), None)


async def _refuse(scope: Scope, answer: Answer, error: ClocheError) -> None:
    metrics.refused(error)
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    headers += [(key.encode(), value.encode()) for key, value in headers_of(error).items()]
    body = msgspec.json.encode(problem_of(error, scope["path"]))
    await _answer(scope, answer, error.http_status, headers, body)


async def _answer(
    scope: Scope, answer: Answer, status: int, headers: list[tuple[bytes, bytes]], body: bytes = b""
) -> None:
    kind = "http" if scope["type"] == ScopeType.HTTP else "websocket.http"
    given = [*headers, (b"content-length", str(len(body)).encode())]
    await answer({"type": f"{kind}.response.start", "status": status, "headers": given})
    await answer({"type": f"{kind}.response.body", "body": body})
