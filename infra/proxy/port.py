"""What the proxy asks, and what it is answered. It has no policy of its own."""

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

Via = Literal["http", "connect", "socks", "route"]
TUNNEL = "CONNECT"


class Wanted(Struct, frozen=True, kw_only=True):
    """One request, or one tunnel."""

    via: Via
    host: str
    """Lower case, no dot at the end, IDNA A-labels; or an address in its canonical spelling, without brackets."""
    port: int
    method: str
    """`CONNECT` for a tunnel, through SOCKS too."""
    path: str | None
    """Without its query; None for a tunnel."""
    secret: str | None = None
    """The name of the route that was taken."""


class Refused(Exception):
    """It does not pass. The reason is told to the client, so it holds no secret."""

    def __init__(self, reason: str, status: int = 403, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        """What a person could do about it: a line of its own in the answer."""
        self.status = status
        """Of HTTP: 403 by policy, 400 malformed, 429 over a limit, 502 and 504 not reached. Never 407."""


class Passage(Protocol):
    """Let through, to these addresses and nowhere else. Either `end` or `deny` is called, once."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """IP literals in the order in which to try them. The port is that of `Wanted`."""
        ...

    def connected(self, address: str) -> None:
        """What follows goes there, also by a connection that was already open. Called again where that had to be
        given up for another one before it was answered."""
        ...

    def end(self, *, status: int | None, sent: int, received: int, error: str | None) -> None:
        """It is over. Bytes are those that went to and came from the other side, heads included."""
        ...

    def deny(self, reason: str) -> None:
        """Refused after all, before anything has passed either way."""
        ...

    def on_cut(self, cut: Callable[[str], None]) -> None:
        """`cut` is called with a reason, at most once, should the permission end earlier than the request."""
        ...


class Gate(Protocol):
    async def ask(self, wanted: Wanted) -> Passage:
        """May wait for long. Raises `Refused`; is cancelled when the client goes away."""
        ...

    def refused(self, wanted: Wanted | None, reason: str, raw: str = "") -> None:
        """The proxy itself refused. Absent `wanted`: it could not be read; `raw` is some of it, made printable."""
        ...
