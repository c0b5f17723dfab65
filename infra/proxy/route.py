"""A path on the sandbox's loopback that leads to one host, with a credential added on the way."""

import ssl
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct


class Route(Struct, frozen=True, kw_only=True):
    """`/<name>/<rest>` becomes `https://<host>:<port>/<rest>`, with the header set."""

    name: str
    host: str
    port: int = 443
    header: str = "Authorization"
    template: str = "Bearer {secret}"
    secret: Callable[[], str]
    """Asked for each request, so that a changed credential counts at once; must not block.

    Raises `infra.proxy.port.Refused` where there is none.
    """

    def __repr__(self) -> str:
        """Without the callable, whose own repr might hold the value."""
        return f"Route({self.name!r}, {self.host!r}, {self.port})"


def verifying(ca_file: Path | None = None) -> ssl.SSLContext:
    """The system's authorities, and one's own. Reads files. Raises OSError or ssl.SSLError for a bad `ca_file`."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context
