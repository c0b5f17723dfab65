"""A program of its own, stdlib only: opens listening sockets inside other network namespaces and hands them out.

`python -I -S -B enter.py`, with one end of a unix seqpacket pair as its standard input. A request is the ports, in
decimal with spaces between, with two descriptors: the namespace, and a seqpacket socket for the answer. The answer is
`ok <way>` with a listening socket for each port, or `no <errno> <words>`; none at all where this program has died.

Entering a user namespace is for ever and for single-threaded programs only, so each request has a child of its own.
It ends when the other end of its standard input is closed, which the kernel does however its owner ends.

`enter.py PATH PORT…` is for a program that is in the right namespace already: it gives that answer to whoever listens
on the unix socket, and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would be a fifth of the imports.
    from typing import NoReturn

ADDRESS = "127.0.0.1"
BACKLOG = 1024
BY_RIGHT = "entered"
BY_OWNER = "entered-by-owner"
BY_NEIGHBOUR = "neighbour"
REQUEST_BYTES = 256
CHILD_S = 10

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_NS_GET_USERNS = 0xB701


def main() -> None:
    if len(sys.argv) > 1:
        answer_from_here(sys.argv[1], sys.argv[2:])
    else:
        serve()


def answer_from_here(path: str, ports: list[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as answers:
        answers.connect(path)
        try:
            hand_over(answers, BY_NEIGHBOUR, [listen(int(port)) for port in ports])
        except OSError as error:
            refuse(answers.fileno(), error)


def serve() -> None:
    # Children are reaped by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=0) as requests:
        while True:
            request, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
            if not request:
                return
            take(request, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)


def take(request: bytes, descriptors: list[int]) -> None:
    if len(descriptors) != 2:
        return
    try:
        child = os.fork()
    except OSError as error:
        refuse(descriptors[1], error)
        return
    if child == 0:
        answer(request, *descriptors)


def answer(request: bytes, namespace: int, reply: int) -> NoReturn:
    """In a child, which ends with it."""
    signal.alarm(CHILD_S)
    try:
        way = enter(namespace)
        listeners = [listen(int(port)) for port in request.split()]
        with socket.socket(fileno=reply) as answers:
            hand_over(answers, way, listeners)
    except (OSError, ValueError) as error:
        refuse(reply, error)
    finally:
        os._exit(0)


def hand_over(answers: socket.socket, way: str, listeners: list[socket.socket]) -> None:
    socket.send_fds(answers, [f"ok {way}".encode()], [each.fileno() for each in listeners])
    # Before the answer's end: whoever waits for that can close them and have the ports free.
    for each in listeners:
        each.close()


def refuse(reply: int, error: OSError | ValueError) -> None:
    number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
    with contextlib.suppress(OSError):
        os.write(reply, f"no {number} {error}"[:1000].encode())


def enter(namespace: int) -> str:
    """Answers by which right."""
    own = os.stat("/proc/self/ns/net")  # noqa: PTH116
    if os.path.samestat(own, os.fstat(namespace)):
        # Everybody on this machine could use what listens there.
        raise OSError(errno.EINVAL, "it has no network namespace of its own")
    try:
        _join(namespace, _CLONE_NEWNET)
    except PermissionError:
        _enter_by_owner(namespace)
        return BY_OWNER
    return BY_RIGHT


def _enter_by_owner(namespace: int) -> None:
    """Whoever made a user namespace may do everything in it, but only from inside."""
    try:
        _join(fcntl.ioctl(namespace, _NS_GET_USERNS), _CLONE_NEWUSER)
        _join(namespace, _CLONE_NEWNET)
    except OSError as error:
        raise PermissionError(errno.EPERM, f"no right to enter its network namespace: {error.strerror}") from error


def _join(namespace: int, kind: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Connections of an earlier life that are not quite over would keep the port.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((ADDRESS, port))
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


if __name__ == "__main__":
    main()
