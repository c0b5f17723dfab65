"""Where the servers of a cluster are, as a person says it."""

import ipaddress
import re
from collections.abc import Iterable

from msgspec import Struct

from contracts.errors import Invalid

CLIENT_PORT = 4222
ROUTE_PORT = 6222

_SAID = re.compile(
    r"(?P<name>[A-Za-z0-9_-]{1,64})=(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:(?P<port>\d+)(:(?P<route>\d+))?)?"
)


class ServerAddress(Struct, frozen=True, kw_only=True):
    name: str
    host: str
    """As clients and the other servers reach it."""
    port: int = CLIENT_PORT
    route_port: int = ROUTE_PORT
    zone: str = ""
    """Replicas of one stream are put into different zones. Empty = anywhere."""

    @property
    def listen(self) -> str:
        """Loopback stays loopback; everything else listens wherever its machine is reached."""
        return self.host if is_loopback(self.host) else "0.0.0.0"  # noqa: S104  servers are for other machines


def parse(said: str, zones: dict[str, str] | None = None) -> ServerAddress:
    """`NAME=HOST[:PORT[:ROUTE_PORT]]`. Raises `Invalid`."""
    found = _SAID.fullmatch(said)
    if found is None:
        raise Invalid(f"{said[:200]!r} is no server: say NAME=HOST, NAME=HOST:PORT or NAME=HOST:PORT:ROUTE_PORT")
    name = found["name"]
    return ServerAddress(
        name=name,
        host=found["host"],
        port=_port(said, found["port"], CLIENT_PORT),
        route_port=_port(said, found["route"], ROUTE_PORT),
        zone=(zones or {}).get(name, ""),
    )


def parse_all(said: Iterable[str], zones: dict[str, str] | None = None) -> tuple[ServerAddress, ...]:
    """Raises `Invalid` for two of one name or at one address, and for a cluster that cannot agree on anything."""
    servers = tuple(parse(each, zones) for each in said)
    names = [server.name for server in servers]
    ports = [(server.host, port) for server in servers for port in _ports(server, len(servers))]
    if len(set(names)) < len(names):
        raise Invalid(f"two servers have one name: {', '.join(names)}")
    if len(set(ports)) < len(ports):
        raise Invalid("two servers listen on one port of one host: say NAME=HOST:PORT:ROUTE_PORT")
    if not servers or len(servers) % 2 == 0:
        raise Invalid(f"{len(servers)} servers: one alone, or three or five, so that more than half can agree")
    if unknown := set(zones or {}) - set(names):
        raise Invalid(f"there is no server {min(unknown)!r} to have a zone")
    return servers


def url(servers: Iterable[ServerAddress], *, tls: bool) -> str:
    """What clients are given as CLOCHE_URL."""
    scheme = "tls" if tls else "nats"
    return ",".join(f"{scheme}://{server.host}:{server.port}" for server in servers)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _ports(server: ServerAddress, servers: int) -> tuple[int, ...]:
    return (server.port, server.route_port) if servers > 1 else (server.port,)


def _port(said: str, given: str | None, default: int) -> int:
    port = default if given is None else int(given)
    if not 0 < port < 65_536:
        raise Invalid(f"{said[:200]!r}: {port} is no port")
    return port
