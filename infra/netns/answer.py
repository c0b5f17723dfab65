"""What `enter.py` answers."""

import asyncio
import contextlib
import errno
import os
import socket
from typing import NamedTuple

from contracts.errors import Unavailable
from infra.netns import enter
from infra.netns.errors import NoWayIn, PortTaken
from infra.netns.opened import Opened, checked

ANSWER_BYTES = 2048
MOST_PORTS = 8
WORDS = {
    enter.BY_RIGHT: "its network namespace is entered with the rights of root",
    enter.BY_OWNER: "its network namespace is entered through the user namespace that owns it",
    enter.BY_NEIGHBOUR: "a helper container in its network namespace opens the sockets and hands them over",
}


class Answer(NamedTuple):
    said: str
    descriptors: list[int]


async def received(sock: socket.socket, timeout_s: float) -> Answer | None:
    """With the end of the answer, so that nobody but us holds the descriptors. None when none comes in time."""
    descriptors: list[int] = []
    said = b""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                await readable(sock)
                part, more, _, _ = socket.recv_fds(sock, ANSWER_BYTES, MOST_PORTS, socket.MSG_CMSG_CLOEXEC)
                descriptors += more
                if not part:
                    break
                said = said or part
    except (TimeoutError, OSError):
        said = b""
    except asyncio.CancelledError:
        _close(descriptors)
        raise
    if not said:
        _close(descriptors)
        return None
    return Answer(said.decode("utf-8", "replace"), descriptors)


def judge(answer: Answer, ports: tuple[int, ...]) -> Opened:
    """Takes the descriptors over. Raises `PortTaken`, `NoWayIn`, `Unavailable`."""
    verdict, _, rest = answer.said.partition(" ")
    if verdict == "ok":
        return checked(WORDS.get(rest, "unknown"), ports, answer.descriptors)
    _close(answer.descriptors)
    number, _, words = rest.partition(" ")
    if number == str(errno.EADDRINUSE):
        raise PortTaken(f"something inside listens on port {' or '.join(map(str, ports))} already")
    if number in (str(errno.EPERM), str(errno.EACCES)):
        raise NoWayIn(words)
    raise Unavailable(f"nothing can listen inside: {words}")


async def readable(sock: socket.socket) -> None:
    """Until there is something to read, or the other end is closed."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
