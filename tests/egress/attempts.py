"""Ways in which a sandbox might try to get around its proxy, each with what it would be if it worked.

`{port}` is that of every trap and of the allowed server, `<PORT>` the same in two bytes, and `{nats}` that of the log's
own server. What an attempt says to
the proxy is sent as it stands, byte for byte.
"""

from typing import NamedTuple

ALLOWED, DENIED = "allowed.test", "denied.test"
TWO_FACED, LOOPED, PRIVATE, METADATA, MAPPED = (
    "two-faced.test", "looped.test", "private.test", "metadata.test", "mapped.test",
)  # fmt: skip

LONG, MANY = "x" * 300_000, "X: 1\r\n" * 10_000
SMUGGLED = f"GET http://{ALLOWED}:{{port}}/smuggled HTTP/1.1\r\nHost: {ALLOWED}:{{port}}\r\n\r\n"


class Attempt(NamedTuple):
    name: str
    said: bytes
    then: bytes = b""
    """What follows once the proxy has answered with 200."""


def _get(name: str, authority: str, *, host: str | None = None) -> Attempt:
    said = f"GET http://{authority}/ HTTP/1.1\r\nHost: {host if host is not None else authority}\r\n\r\n"
    return Attempt(name, said.encode())


def _connect(name: str, authority: str, then: bytes = b"GET / HTTP/1.0\r\n\r\n") -> Attempt:
    return Attempt(name, f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode(), then)


def _post(name: str, *headers: str, body: str = "") -> Attempt:
    head = f"POST http://{ALLOWED}:{{port}}/ HTTP/1.1\r\nHost: {ALLOWED}:{{port}}\r\n"
    return Attempt(name, (head + "".join(f"{header}\r\n" for header in headers) + "\r\n" + body).encode())


def _raw(name: str, said: str) -> Attempt:
    return Attempt(name, said.encode())


def _socks(name: str, command: int, kind: int, address: bytes, port: int | None = None) -> Attempt:
    where = b"<PORT>" if port is None else port.to_bytes(2, "big")
    return Attempt(name, b"\x05\x01\x00\x05" + bytes([command, 0, kind]) + address + where)


SPELLINGS = (
    "127.0.0.1", "0177.0.0.1", "0177.0.0.01", "0x7f.0.0.1", "0X7F.0.0.1", "0x7f000001", "2130706433", "017700000001",
    "127.1", "127.0.1", "127.0.0.1.", "127.000.000.001", "0.0.0.0", "0", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]", "[::1%lo]", "[::1%25lo]", "[fe80::1%25eth0]", "１２７.０.０.１", "①②⑦.⓪.⓪.①", "127。0。0。1",
    "%31%32%37.0.0.1", "127.0.0.1%00.allowed.test", "localhost", "LOCALHOST.", "ip6-localhost", "sandbox",
)  # fmt: skip
"""Of the loopback of the machine."""

ELSEWHERE = (
    "10.0.0.7", "172.16.0.1", "192.168.0.1", "169.254.169.254", "2852039166", "0xa9fea9fe", "[fd00:ec2::254]",
    "100.64.0.1", "224.0.0.1", "255.255.255.255", "[fe80::1]", "[fc00::1]", "[ff02::1]", "192.0.2.1", "198.18.0.1",
)  # fmt: skip

NAMES = (
    DENIED, "DENIED.TEST.", f"{ALLOWED}.{DENIED}", f"not-{ALLOWED}", f"sub.{ALLOWED}",
    "dGhlIHNlY3JldA.exfiltration.test", f"{ALLOWED}..", f".{ALLOWED}", "*", f"*.{ALLOWED}", "аllowed.test", "",
    f"user@{DENIED}", f"{ALLOWED}@{DENIED}", f"{ALLOWED}:80@{DENIED}", f"{ALLOWED}#@{DENIED}", f"{ALLOWED}\\@{DENIED}",
    f"{ALLOWED}%2e{DENIED}", f"{ALLOWED}%40{DENIED}", f"{ALLOWED};{DENIED}", f"{ALLOWED},{DENIED}",
    f"{ALLOWED} {DENIED}",
    TWO_FACED, LOOPED, PRIVATE, METADATA, MAPPED,
)  # fmt: skip
"""That are not allowed, or lead where nobody may go."""

FORMS = (
    _get("a Host that is another", f"{ALLOWED}:{{port}}", host=f"{DENIED}:{{port}}"),
    _get("a Host with another port", f"{ALLOWED}:{{port}}", host=f"{ALLOWED}:22"),
    _raw("two Hosts", f"GET http://{ALLOWED}:{{port}}/ HTTP/1.1\r\nHost: {ALLOWED}:{{port}}\r\nHost: {DENIED}\r\n\r\n"),
    _raw("no Host", f"GET http://{ALLOWED}:{{port}}/ HTTP/1.1\r\n\r\n"),
    _raw("a path alone", f"GET / HTTP/1.1\r\nHost: {ALLOWED}:{{port}}\r\n\r\n"),
    _raw("a path that looks like an address", f"GET //{DENIED}:{{port}}/ HTTP/1.1\r\nHost: {ALLOWED}:{{port}}\r\n\r\n"),
    _raw("https in clear", f"GET https://{ALLOWED}:{{port}}/ HTTP/1.1\r\nHost: {ALLOWED}:{{port}}\r\n\r\n"),
    _raw("ftp", f"GET ftp://{ALLOWED}:{{port}}/ HTTP/1.1\r\nHost: {ALLOWED}:{{port}}\r\n\r\n"),
    _raw("file", "GET file:///etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    _raw("backslashes", f"GET http:\\\\{DENIED}:{{port}}\\ HTTP/1.1\r\nHost: {DENIED}:{{port}}\r\n\r\n"),
    _raw("a host by its authority alone", f"GET {DENIED}:{{port}} HTTP/1.1\r\nHost: {DENIED}:{{port}}\r\n\r\n"),
    _raw("TRACE", f"TRACE http://{ALLOWED}:{{port}}/ HTTP/1.1\r\nHost: {ALLOWED}:{{port}}\r\n\r\n"),
    _raw("a port beyond all", f"GET http://{ALLOWED}:65616/ HTTP/1.1\r\nHost: {ALLOWED}:65616\r\n\r\n"),
    _raw("a port with a sign", f"GET http://{ALLOWED}:+{{port}}/ HTTP/1.1\r\nHost: {ALLOWED}:+{{port}}\r\n\r\n"),
    _get("a port that is not allowed", f"{ALLOWED}:22"),
    _get("the log itself", "127.0.0.1:{nats}"),
    _raw("HTTP/2 by prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    _raw("HTTP/0.9", f"GET http://{DENIED}:{{port}}/\r\n"),
    _raw("PROXY protocol", f"PROXY TCP4 127.0.0.1 127.0.0.1 1 {{port}}\r\nGET / HTTP/1.1\r\nHost: {DENIED}\r\n\r\n"),
)

_HEAD = f"GET http://{ALLOWED}:{{port}}/ HTTP/1.1\r\nHost: {ALLOWED}:{{port}}\r\n"

INJECTIONS = (
    _raw("a break in the target", f"GET http://{ALLOWED}:{{port}}/\r\nX: 1\r\n HTTP/1.1\r\nHost: {DENIED}\r\n\r\n"),
    _raw("a bare CR in a header", f"{_HEAD}X: 1\rHost: {DENIED}\r\n\r\n"),
    _raw("a bare LF", f"GET http://{ALLOWED}:{{port}}/ HTTP/1.1\nHost: {DENIED}\n\n"),
    _raw("NUL in a header", f"{_HEAD}X: \0\r\n\r\n"),
    _raw("a folded header", f"{_HEAD}X: 1\r\n Host: {DENIED}\r\n\r\n"),
    _raw("a space before the colon", f"GET http://{ALLOWED}:{{port}}/ HTTP/1.1\r\nHost : {DENIED}\r\n\r\n"),
    _raw("a head without end", f"{_HEAD}X: {LONG}"),
    _raw("ten thousand headers", f"{_HEAD}{MANY}\r\n"),
    _raw("a head that never comes", f"GET http://{ALLOWED}:{{port}}/ HTTP/1.1\r\nHost: "),
)  # fmt: skip

SMUGGLING = (
    _post("a length and chunks", "Content-Length: 6", "Transfer-Encoding: chunked", body="0\r\n\r\n" + SMUGGLED),
    _post("chunks and a length", "Transfer-Encoding: chunked", "Content-Length: 6", body="0\r\n\r\n" + SMUGGLED),
    _post("two lengths", "Content-Length: 0", "Content-Length: 5", body=SMUGGLED),
    _post("a list of lengths", "Content-Length: 0, 5", body=SMUGGLED),
    _post("a length with a sign", "Content-Length: +0", body=SMUGGLED),
    _post("a negative length", "Content-Length: -1", body=SMUGGLED),
    _post("a hexadecimal length", "Content-Length: 0x0", body=SMUGGLED),
    _post("an odd encoding", "Transfer-Encoding: xchunked", body=SMUGGLED),
    _post("an encoding beside chunks", "Transfer-Encoding: chunked, identity", body=SMUGGLED),
    _post("chunks twice", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body="0\r\n\r\n"),
    _post("chunks after a tab", "Transfer-Encoding:\x0bchunked", body="0\r\n\r\n" + SMUGGLED),
    _post("a chunk of odd size", "Transfer-Encoding: chunked", body="0x1\r\nA\r\n0\r\n\r\n" + SMUGGLED),
    _post("a chunk that is too large", "Transfer-Encoding: chunked", body="ffffffffffffffffff\r\n" + SMUGGLED),
    _post("a chunk that does not end", "Transfer-Encoding: chunked", body="1\r\nAB\r\n0\r\n\r\n" + SMUGGLED),
)

TUNNELS = (
    _connect("a tunnel to a denied host", f"{DENIED}:{{port}}"),
    _connect("a tunnel to a denied port", f"{ALLOWED}:22"),
    _connect("a tunnel to the loopback", "127.0.0.1:{port}"),
    _connect("a tunnel to the log itself", "127.0.0.1:{nats}"),
    _connect("a tunnel to a name that looks like the loopback", f"{LOOPED}:{{port}}"),
    _connect("a tunnel to a mapped address", "[::ffff:127.0.0.1]:{port}"),
    _connect("a tunnel without a port", ALLOWED),
    _connect("a tunnel with a path", f"{ALLOWED}:{{port}}/"),
    _connect("a tunnel to an address with a scheme", f"http://{ALLOWED}:{{port}}"),
    _connect(
        "a request for another host in a tunnel",
        f"{ALLOWED}:{{port}}",
        f"GET /fronted HTTP/1.1\r\nHost: {DENIED}:{{port}}\r\n\r\n".encode(),
    ),
    _connect("a hello for another host in a tunnel", f"{ALLOWED}:{{port}}", b"HELLO denied.test"),
    _connect("a hello that names nobody in a tunnel", f"{ALLOWED}:{{port}}", b"HELLO"),
)

SOCKS = (
    _socks("SOCKS to a denied name", 1, 3, b"\x0bdenied.test"),
    _socks("SOCKS to a denied port", 1, 3, b"\x0callowed.test", 22),
    _socks("SOCKS to the loopback", 1, 1, b"\x7f\x00\x00\x01"),
    _socks("SOCKS to the loopback as a name", 1, 3, b"\x0a0x7f000001"),
    _socks("SOCKS to the loopback by IPv6", 1, 4, b"\x00" * 15 + b"\x01"),
    _socks("SOCKS to a mapped address", 1, 4, b"\x00" * 10 + b"\xff\xff\x7f\x00\x00\x01"),
    _socks("SOCKS to the metadata", 1, 1, b"\xa9\xfe\xa9\xfe", 80),
    _socks("SOCKS that wants to listen", 2, 3, b"\x0callowed.test"),
    _socks("SOCKS for UDP", 3, 3, b"\x0callowed.test"),
    _socks("SOCKS of a name with NUL", 1, 3, b"\x18allowed.test\x00denied.test"),
    Attempt("the older SOCKS", b"\x04\x01<PORT>\x7f\x00\x00\x01user\x00"),
)

ATTEMPTS: tuple[Attempt, ...] = (
    *(_get(f"the loopback as {each}", f"{each}:{{port}}") for each in SPELLINGS),
    *(_get(f"another network by {each}", f"{each}:{{port}}") for each in ELSEWHERE),
    *(_get(f"the name {each!r}", f"{each}:{{port}}") for each in NAMES),
    *FORMS,
    *INJECTIONS,
    *SMUGGLING,
    *TUNNELS,
    *SOCKS,
)

DIRECT: dict[str, str] = {
    "a connection to the machine's loopback": "socket.create_connection(('127.0.0.1', PORT), 3)",
    "a connection to the log itself": "socket.create_connection(('127.0.0.1', NATS), 3)",
    "a connection to an address of the machine": "socket.create_connection((TRAP, PORT), 3)",
    "a connection to the allowed server": "socket.create_connection((SERVER, PORT), 3)",
    "a connection to a public address": "socket.create_connection(('192.0.2.1', 80), 3)",
    "a connection by IPv6": "socket.create_connection(('2001:db8::1', 80), 3)",
    "the metadata": "socket.create_connection(('169.254.169.254', 80), 3)",
    "a lookup of a name": "socket.getaddrinfo('allowed.test', 80)",
    "a datagram to a public address": "datagram(('192.0.2.1', 53))",
    "a datagram to an address of the machine": "heard(datagram((TRAP, PORT)))",
    "a datagram to the machine's loopback": "heard(datagram(('127.0.0.1', PORT)))",
    "a broadcast": "datagram(('255.255.255.255', PORT), broadcast=True)",
    "multicast": "datagram(('224.0.0.1', PORT))",
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
    "a packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)",
    "an abstract socket of the machine": "socket.socket(socket.AF_UNIX).connect(chr(0) + ABSTRACT)",
    "a socket file of the machine": "socket.socket(socket.AF_UNIX).connect(FILE)",
    "the engine's socket": "socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')",
    "a service of another sandbox": "socket.create_connection(('127.0.0.1', OTHER), 3)",
    "an interface of its own": "make_interface()",
    "a namespace of its own, where it is root": "unshare_network()",
}
"""Ways past the proxy altogether, as Python that raises OSError where it gets nowhere."""
