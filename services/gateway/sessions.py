"""Sessions: a token is given once, and a cookie that no script can read stands for it from then on."""

import datetime
import time
from typing import Any, NamedTuple

from litestar import Request, Response, Router, delete, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.params import JSONBody, SkipValidation

from contracts.access import Principal
from contracts.errors import Unauthenticated
from contracts.http.session import NewSession, Session
from services.gateway.access.gate import Gate
from services.gateway.access.limits import Limits
from services.gateway.access.origins import Origins
from services.gateway.routes.bodies import ApiRequest, StrictBody

LARGEST_BODY = 64 * 1024
"""Bytes, of what anybody may send."""

Asked = Request[Principal, Any, Any]


class Begun(NamedTuple):
    cookie: Cookie
    principal: Principal


class Sessions:
    """Begins and ends them."""

    def __init__(self, gate: Gate, limits: Limits, origins: Origins) -> None:
        self._gate = gate
        self._limits = limits
        self._origins = origins

    def begun(self, request: Request[Any, Any, Any], token: str) -> Begun:
        """The cookie for whoever has this token. Raises `Unauthenticated`, `TooManyRequests`."""
        try:
            principal = self._gate.named_by(token)
        except Unauthenticated:
            self._limits.failed(request.scope)
            raise
        session = self._gate.session(principal)
        cookie = self._cookie(request, session.value)
        cookie.max_age = max(0, (session.principal.expires_at or 0) - int(time.time()))
        return Begun(cookie, session.principal)

    def ended(self, request: Request[Any, Any, Any]) -> Cookie:
        cookie = self._cookie(request, "")
        cookie.max_age = 0
        return cookie

    def check_page(self, request: Request[Any, Any, Any]) -> None:
        """Nobody's page makes somebody into somebody else. Raises `Forbidden`."""
        self._origins.check_page(request.scope)

    def _cookie(self, request: Request[Any, Any, Any], value: str) -> Cookie:
        secure = request.scope["scheme"] == "https" or request.headers.get("origin", "").startswith("https://")
        return Cookie(key=self._gate.cookie, value=value, path="/", httponly=True, samesite="strict", secure=secure)


TheSessions = SkipValidation[NamedDependency[Sessions]]


def told(principal: Principal) -> Session:
    ends = principal.expires_at
    return Session(
        subject=principal.subject,
        role=principal.role,
        scope=principal.scope,
        expires_at=None if ends is None else datetime.datetime.fromtimestamp(ends, datetime.UTC),
    )


@post("/", status_code=201, operation_id="beginSession", summary="Begin a session", security=[{}])
async def begin(
    request: Request[Any, Any, Any], sessions: TheSessions, data: JSONBody[NewSession]
) -> Response[Session]:
    """For browsers: the answer sets a cookie that stands for the token."""
    sessions.check_page(request)
    begun = sessions.begun(request, data.token)
    return Response(told(begun.principal), cookies=[begun.cookie])


@get("/", operation_id="getSession", summary="Who am I")
async def who(request: Asked) -> Session:
    return told(request.user)


@delete("/", status_code=204, operation_id="endSession", summary="End the session")
async def end(request: Asked, sessions: TheSessions) -> Response[None]:
    """The browser forgets the cookie."""
    return Response(None, status_code=204, cookies=[sessions.ended(request)])


ROUTER = Router(
    "/api/v1/session",
    route_handlers=[begin, who, end],
    dto=StrictBody,
    return_dto=None,
    request_class=ApiRequest,
    request_max_body_size=LARGEST_BODY,
    tags=["session"],
    security=[{"token": []}, {"session": []}],
)
