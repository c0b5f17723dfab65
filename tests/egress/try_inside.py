"""Runs in the sandbox: every attempt of a file, one after another, and what came of it as lines of JSON."""

import base64
import contextlib
import ctypes
import json
import os
import socket
import ssl
import struct
import sys

PATIENCE_S = 10.0
with open(sys.argv[1]) as file:
    given = json.load(file)
PORT, NATS, OTHER = given["port"], given["nats"], given["other"]
TRAP, SERVER, ABSTRACT, FILE = given["trap"], given["server"], given["abstract"], given["file"]
CLONE_NEWUSER, CLONE_NEWNET, SIOCSIFFLAGS = 0x10000000, 0x40000000, 0x8914


def filled(text: bytes) -> bytes:
    text = text.replace(b"{port}", str(PORT).encode()).replace(b"{nats}", str(NATS).encode())
    return text.replace(b"<PORT>", PORT.to_bytes(2, "big"))


def hello(name: bytes) -> bytes:
    """The first that a real client of TLS says, for that name or none."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    client = context.wrap_bio(incoming, outgoing, server_hostname=name.decode() or None)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def is_whole(got: bytes) -> bool:
    """An answer after which the proxy keeps the connection."""
    head, end, body = got.partition(b"\r\n\r\n")
    lengths = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end and lengths) and len(body) >= lengths[0]


def all_of(proxy: socket.socket) -> bytes:
    got = b""
    try:
        while not is_whole(got) and (more := proxy.recv(65_536)):
            got += more
    except TimeoutError:
        got += b"[no more came]"
    except OSError:
        pass
    return got


def through_the_proxy(said: bytes, then: bytes) -> str:
    with socket.create_connection(("127.0.0.1", 3128), PATIENCE_S) as proxy:
        proxy.settimeout(PATIENCE_S)
        try:
            if said[:1] == b"\x05":
                proxy.sendall(said[:3])
                proxy.recv(2)
                said = said[3:]
            proxy.sendall(filled(said))
            if not then:
                return repr(all_of(proxy))
            got = proxy.recv(65_536)
            if b" 200 " not in got:
                return repr(got)
            proxy.sendall(hello(then[6:]) if then.startswith(b"HELLO") else filled(then))
            return "in the tunnel " + repr(all_of(proxy))
        except (ConnectionError, BrokenPipeError):
            return "cut off"


def datagram(where: tuple[str, int], *, broadcast: bool = False) -> socket.socket:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if broadcast:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    sender.connect(where)
    sender.send(b"knock")
    return sender


def heard(sender: socket.socket) -> bytes:
    """Of a datagram nobody says at once that it went nowhere."""
    sender.settimeout(1)
    return sender.recv(16)


def make_interface() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", 0))


def unshare_network() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    socket.create_connection((TRAP, PORT), 3)


def directly(expression: str) -> str:
    try:
        eval(expression)
    except OSError as error:
        return f"nowhere: {error}"
    return "it got somewhere"


for name, said, then in given["attempts"]:
    print(json.dumps([name, through_the_proxy(base64.b64decode(said), base64.b64decode(then))]), flush=True)
for name, expression in given["direct"].items():
    print(json.dumps([name, directly(expression)]), flush=True)
