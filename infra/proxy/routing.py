"""Paths that lead to one host each, with a credential added that the client never sees."""

import re
from collections.abc import Mapping, Sequence

from infra.proxy.answers import Failed
from infra.proxy.connection import Connection
from infra.proxy.forwarding import Forwarding
from infra.proxy.framing import body_of_request
from infra.proxy.head import Field, RequestHead
from infra.proxy.masking import Mask
from infra.proxy.names import authority, canonical_host
from infra.proxy.onward import onward
from infra.proxy.port import Gate, Refused, Wanted
from infra.proxy.requests import Turn, serve_requests
from infra.proxy.route import Route
from infra.proxy.target import Target, in_origin_form

HTTPS_PORT = 443
_FIELD_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")
DROPPED = frozenset(
    (b"accept-encoding", b"sec-websocket-extensions", b"forwarded", b"x-forwarded-host", b"range", b"if-range")
)
"""What would let the other side answer in a way that cannot be looked into, or for somebody else.

In parts of the client's choice no part needs to hold the whole credential. Whoever asked for one gets the whole.
"""


class Routing:
    def __init__(self, gate: Gate, forwarding: Forwarding, routes: Mapping[str, Route]) -> None:
        self._gate = gate
        self._forwarding = forwarding
        self._routes = routes

    async def serve(self, client: Connection) -> None:
        """Everything that comes on one connection."""
        await serve_requests(client, self._gate, self._request)

    async def _request(self, turn: Turn) -> bool:
        head = turn.head
        route, to = self._find(in_origin_form(head))
        turn.wanted = Wanted(
            via="route", host=to.host, port=to.port, method=head.method, path=to.path(), secret=route.name
        )
        turn.body = body_of_request(head)
        head.fields.one(b"host")
        secret = _credential(route)
        request = onward(head, to.origin, _host(to), turn.body, _fields(head, route, secret))
        return await self._forwarding.permitted(turn, request, Sieve(route, secret), tls=True)

    def _find(self, origin: bytes) -> tuple[Route, Target]:
        """Raises `Refused` for a path that no route has."""
        name, slash, rest = origin[1:].partition(b"/")
        bare, question, query = name.partition(b"?")
        if not slash and question:
            name, rest = bare, question + query
        route = self._routes.get(name.decode("latin-1"))
        if route is None:
            raise Refused("no route has this name", 404)
        return route, Target(host=canonical_host(route.host), port=route.port, origin=b"/" + rest)


class Sieve:
    """What of an answer the client gets to see."""

    def __init__(self, route: Route, secret: str) -> None:
        self._route = route
        self._mask = Mask(secret)

    def fields(self, fields: Sequence[Field]) -> list[Field]:
        if any(field.lower == b"content-encoding" and field.value.lower() != b"identity" for field in fields):
            raise Failed("the answer is compressed though that was not accepted, so it cannot be looked into")
        kept = (field for field in fields if field.lower != b"accept-ranges")
        return [self._local(field) if field.lower == b"location" else field for field in kept]

    def head(self, raw: bytes) -> bytes:
        return self._mask.whole(raw)

    def feed(self, payload: bytes) -> bytes:
        return self._mask.feed(payload)

    def end(self) -> bytes:
        return self._mask.end()

    def _local(self, field: Field) -> Field:
        """A redirect within the host stays on the route; any other one is the client's to follow, without us."""
        for place in {f"https://{authority(self._route.host, self._route.port, each)}" for each in (HTTPS_PORT, None)}:
            if field.value == place.encode() or field.value.startswith(f"{place}/".encode()):
                field = Field(field.name, field.lower, field.value[len(place) :] or b"/")
        if field.value.startswith(b"/") and not field.value.startswith(b"//"):
            return Field(field.name, field.lower, f"/{self._route.name}".encode() + field.value)
        return field


def _host(to: Target) -> bytes:
    return authority(to.host, to.port, HTTPS_PORT).encode()


def _credential(route: Route) -> str:
    """Raises `Refused` where there is none, or one that no header field can hold."""
    secret = route.secret()
    if _FIELD_VALUE.fullmatch(secret) is None:
        raise Refused(f"the credential {route.name!r} cannot be put into a header field", 502)
    return secret


def _fields(head: RequestHead, route: Route, secret: str) -> list[Field]:
    name = route.header.encode()
    dropped = DROPPED | {name.lower()}
    kept = [field for field in head.fields.all if field.lower not in dropped]
    value = route.template.replace("{secret}", secret)
    if _FIELD_VALUE.fullmatch(value) is None:
        raise Refused(f"the template of {route.name!r} makes no header field", 502)
    return [
        *kept,
        Field(b"Accept-Encoding", b"accept-encoding", b"identity"),
        Field(name, name.lower(), value.encode()),
    ]
