"""The socket that the gateway listens on: its own, or one that whoever started it holds."""

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from contracts.errors import Unavailable
from infra.settings import Gateway

INHERITED = "CLOCHE_GATEWAY_FD"
"""The number of a descriptor: connections wait in it while no gateway runs, so that none is refused over a restart."""
BACKLOG = 1024


@contextmanager
def listening(settings: Gateway) -> Iterator[socket.socket]:
    """Raises `Unavailable` where the address is taken, or not ours."""
    given = os.environ.get(INHERITED)
    found = bound(settings.host, settings.port) if given is None else socket.socket(fileno=int(given))
    with found:
        yield found


def bound(host: str, port: int) -> socket.socket:
    """Raises `Unavailable`."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, number)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(BACKLOG)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise Unavailable(f"the gateway cannot listen on {host}:{port}: {error.strerror}; see gateway.port") from error
    found.setblocking(False)
    return found


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def address_of(host: str, port: int) -> str:
    """For a browser on this machine."""
    try:
        given = ipaddress.ip_address(host)
    except ValueError:
        return f"http://{host}:{port}"
    if given.is_unspecified:
        return f"http://{'127.0.0.1' if given.version == 4 else '[::1]'}:{port}"
    return f"http://{f'[{given}]' if given.version == 6 else given}:{port}"
