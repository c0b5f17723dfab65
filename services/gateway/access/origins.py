"""Which pages and which names may use the gateway: browsers send cookies for whoever asks, and DNS can lie."""

import ipaddress
from urllib.parse import urlsplit

from litestar.types import Scope

from contracts.errors import Forbidden
from infra.settings import Gateway

LOCALHOST = "localhost"
OWN_PAGE = frozenset({"", "same-origin", "none"})
"""Of `Sec-Fetch-Site`: the page itself, the person, or a browser or program that says nothing."""


class Origins:
    def __init__(self, settings: Gateway) -> None:
        self._hosts = frozenset({LOCALHOST, settings.host.lower(), *(each.lower() for each in settings.hosts)})
        self._pages = frozenset(each.lower().rstrip("/") for each in settings.origins)

    def check_host(self, scope: Scope) -> None:
        """Raises `Forbidden` for a name that is not ours. An address is no name, so nobody can have it lie."""
        host = _header(scope, b"host")
        name = _name(host)
        if not name or (name not in self._hosts and not _is_address(name)):
            raise Forbidden(f"{host[:200]!r} is not a name of this gateway: see gateway.hosts")

    def check_page(self, scope: Scope) -> None:
        """Raises `Forbidden` where a page of another origin asks. Programs that are no browsers say nothing."""
        origin = _header(scope, b"origin")
        if origin and not self.allows(scope, origin):
            raise Forbidden(f"a page of {origin[:200]} may not ask this: see gateway.origins")

    def check_cookie(self, scope: Scope, *, changing: bool) -> None:
        """The same where a browser vouches for somebody. What changes something must come with an `Origin`."""
        if changing and not _header(scope, b"origin"):
            raise Forbidden("with a session's cookie the browser has to say which page asks: no Origin came")
        if not _header(scope, b"origin") and came_from_elsewhere(scope):
            raise Forbidden("with a session's cookie only the gateway's own pages may ask")
        self.check_page(scope)

    def allows(self, scope: Scope, origin: str) -> bool:
        return self.is_other(origin) or _is_own(origin.lower(), _header(scope, b"host").lower())

    def is_other(self, origin: str) -> bool:
        """Whether it is a page of elsewhere that the settings let in."""
        return origin.lower() in self._pages


def came_from_elsewhere(scope: Scope) -> bool:
    """Whether a browser says so."""
    return _header(scope, b"sec-fetch-site") not in OWN_PAGE


def _is_own(origin: str, host: str) -> bool:
    return origin in (f"http://{host}", f"https://{host}")


def _name(host: str) -> str | None:
    """None for what is no name, or no name alone."""
    try:
        parts = urlsplit(f"//{host}")
        whole = f"{parts.hostname}" if parts.port is None else f"{parts.hostname}:{parts.port}"
    except ValueError:
        return None
    return parts.hostname if whole == host.lower().replace("[", "").replace("]", "") else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _header(scope: Scope, name: bytes) -> str:
    """Empty where there is none. Raises `Forbidden` where there are several: others may take another one of them."""
    values = [value for key, value in scope["headers"] if key == name]
    if len(values) > 1:
        raise Forbidden(f"more than one {name.decode()} header")
    return values[0].decode("latin-1") if values else ""
