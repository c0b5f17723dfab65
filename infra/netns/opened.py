"""Sockets that listen inside a sandbox and are ours."""

import socket
from collections.abc import Mapping
from typing import NamedTuple

from contracts.errors import Unavailable
from infra.netns.enter import ADDRESS


class Opened(NamedTuple):
    way: str
    """How they came to be there, in words."""
    listeners: Mapping[int, socket.socket]
    """By port, not blocking. Whoever gets them closes them."""

    def close(self) -> None:
        for listener in self.listeners.values():
            listener.close()


def checked(way: str, ports: tuple[int, ...], descriptors: list[int]) -> Opened:
    """Takes the descriptors over. Raises `Unavailable` unless each is a listener on its port."""
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    opened = Opened(way, dict(zip(ports, sockets, strict=False)))
    if len(sockets) == len(ports) and all(_listens(each, port) for port, each in opened.listeners.items()):
        return opened
    for each in sockets:
        each.close()
    raise Unavailable("what was handed out does not listen where it should")


def _listens(listener: socket.socket, port: int) -> bool:
    if listener.family != socket.AF_INET or listener.type != socket.SOCK_STREAM:
        return False
    listener.setblocking(False)
    return listener.getsockname() == (ADDRESS, port) and bool(
        listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    )
