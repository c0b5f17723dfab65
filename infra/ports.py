"""Ports of loopback for servers that are about to start."""

import contextlib
import secrets
import socket
from pathlib import Path

HERE = "127.0.0.1"
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 10_000
TRIES = 1000


def free_ports(count: int) -> list[int]:
    """Different ones that nothing listens on. Raises `OSError` when there are none.

    Not from the range of which the kernel takes the near ends of connections: in the moment before the server has it,
    or while it is restarted, any connection of the machine could be given such a port.
    """
    with contextlib.ExitStack() as held:
        return [_hold(held) for _ in range(count)]


def free_port() -> int:
    [port] = free_ports(1)
    return port


def is_free(port: int) -> bool:
    try:
        with contextlib.closing(_probe(port)):
            return True
    except OSError:
        return False


def _hold(held: contextlib.ExitStack) -> int:
    for _ in range(TRIES):
        with contextlib.suppress(OSError):
            # Not from a generator whose state forks share: they would all come to the same one.
            port = LOWEST + secrets.randbelow(_beyond() - LOWEST)
            held.enter_context(contextlib.closing(_probe(port)))
            return port
    raise OSError(f"no free port on {HERE}")


def _probe(port: int) -> socket.socket:
    probe = socket.socket()
    # As servers do, so that a port in TIME_WAIT counts as free.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HERE, port))
    except OSError:
        probe.close()
        raise
    return probe


def _beyond() -> int:
    """The first port of the kernel's own range; where that leaves no room below it, its range is ours too."""
    try:
        first, last = (int(word) for word in RANGE.read_text().split())
    except (OSError, ValueError):
        return 32_768
    return first if first > LOWEST + TRIES else last
