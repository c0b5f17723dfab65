"""Whose request it is: from a bearer token, a session's cookie, or, for a WebSocket, the token in its address."""

import hashlib
import hmac
import time
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from litestar.enums import ScopeType
from litestar.types import Scope

from contracts.access import Principal, Role
from contracts.errors import Unauthenticated
from infra.settings import Settings
from infra.tokens.keys import checked, own_key
from infra.tokens.tokens import check_still_good, issue, read
from services.gateway.listening import is_loopback

SESSION_S = 12 * 3600
REMEMBERED = 1024
"""Tokens whose signature was found good: checking it is most of what a small request costs."""
LOCAL = "local"
"""Whoever has the address that `cloche up` printed."""
TOKEN = "token"
"""As it is called in an address."""


class Presented(NamedTuple):
    token: str
    by_cookie: bool
    """It is the browser that vouches for somebody, by itself and for whichever page asks."""


class Session(NamedTuple):
    value: str
    """Of the cookie."""
    principal: Principal
    """As it says: with its own end."""


class Gate:
    """Knows the keys. Made once; raises `Invalid` for a key that cannot be read."""

    def __init__(self, settings: Settings, start_token: str | None = None) -> None:
        own, keys = own_key(settings), checked(settings)
        self._start_token = start_token if is_loopback(settings.gateway.host) else None
        """Good until the node ends, and only on loopback. None = there is none."""
        self._signing = own if self._start_token is None else _of_start(own, self._start_token)
        """Sessions end with the node as well: else whoever was in once would stay when the token counts no more."""
        accepted = keys._replace(public=(*keys.public, self._signing.public_key()))
        self._read = lru_cache(REMEMBERED)(lambda token: read(token, accepted))
        raw = own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        # Cookies know no ports: those of two gateways on one machine must not be called the same.
        self.cookie = f"cloche_session_{hashlib.sha256(raw).hexdigest()[:8]}"

    def presented(self, scope: Scope) -> Presented:
        """Raises `Unauthenticated` where nothing is."""
        headers = dict(scope["headers"])
        if token := _bearer(headers) or _in_address(scope):
            return Presented(token, by_cookie=False)
        if token := _in_cookie(headers, self.cookie):
            return Presented(token, by_cookie=True)
        raise Unauthenticated("a token is needed: Authorization: Bearer …; `cloche token` makes one")

    def named_by(self, token: str) -> Principal:
        """Raises `Unauthenticated`."""
        if self._start_token is not None and hmac.compare_digest(token.encode(), self._start_token.encode()):
            return Principal(subject=LOCAL, role=Role.ADMIN)
        principal = self._read(token)
        check_still_good(principal, time.time())
        return principal

    def session(self, principal: Principal) -> Session:
        """Never good for longer than the token that it was given for."""
        now = int(time.time())
        ends = now + SESSION_S
        if principal.expires_at is not None:
            ends = min(ends, principal.expires_at)
        held = Principal(subject=principal.subject, role=principal.role, scope=principal.scope, expires_at=ends)
        return Session(issue(self._signing, held, now=now), held)


def _of_start(own: Ed25519PrivateKey, token: str) -> Ed25519PrivateKey:
    """The same for every gateway of one start, and for nobody who knows the token alone."""
    return Ed25519PrivateKey.from_private_bytes(hmac.digest(own.private_bytes_raw(), token.encode(), "sha256"))


def forget_address_token(scope: Scope) -> None:
    """Whoever logs or tells the address from now on, tells no token."""
    kept = [(key, value) for key, value in _query(scope) if key != TOKEN]
    told: MutableMapping[str, Any] = scope  # type: ignore[assignment]
    told["query_string"] = urlencode(kept).encode()


def _bearer(headers: dict[bytes, bytes]) -> str | None:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _in_address(scope: Scope) -> str | None:
    """Browsers cannot give a WebSocket a header; addresses of ordinary requests end up in logs, so not there."""
    if scope["type"] != ScopeType.WEBSOCKET:
        return None
    return next((value for key, value in _query(scope) if key == TOKEN and value), None)


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _in_cookie(headers: dict[bytes, bytes], name: str) -> str | None:
    """By hand: a cookie of another server on this machine may be one that a strict parser stumbles over."""
    for each in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        key, _, value = each.strip().partition("=")
        if key == name and value:
            return value
    return None
