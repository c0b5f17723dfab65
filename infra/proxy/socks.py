"""SOCKS 5, as far as CONNECT without a password."""

from msgspec import Struct

from infra.proxy.answers import Failed
from infra.proxy.names import canonical_address, canonical_host
from infra.proxy.port import Refused
from infra.proxy.wire import Wire

SOCKS5 = 5
SOCKS4 = 4
NO_PASSWORD = 0
CONNECT = 1
IPV4, NAME, IPV6 = 1, 3, 4
ACCEPTED = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
NO_METHOD = b"\x05\xff"
SOCKS4_REFUSED = b"\x00\x5b" + bytes(6)
_CODES = {403: 2, 429: 2, 400: 1, 502: 5, 504: 4}
COMMAND_UNKNOWN, KIND_UNKNOWN = 7, 8


class Asked(Struct, frozen=True):
    host: str
    port: int


class Unspoken(Refused):
    """Refused with bytes of its own."""

    def __init__(self, reason: str, reply: bytes) -> None:
        super().__init__(reason, 400)
        self.reply = reply


async def read_socks(client: Wire) -> Asked:
    """Raises `Unspoken` for what is not CONNECT without a password, and `Refused` for what is no host."""
    await _greet(client)
    version, command, _, kind = await _bytes(client, 4)
    if version != SOCKS5:
        raise Unspoken("not SOCKS 5", refusing(1))
    if command != CONNECT:
        raise Unspoken("of SOCKS only CONNECT is spoken", refusing(COMMAND_UNKNOWN))
    host = await _host(client, kind)
    port = int.from_bytes(await _bytes(client, 2))
    if not port:
        raise Refused("not a port", 400)
    return Asked(host, port)


async def _greet(client: Wire) -> None:
    version = (await _bytes(client, 1))[0]
    if version == SOCKS4:
        raise Unspoken("SOCKS 4 is not spoken", SOCKS4_REFUSED)
    methods = await _bytes(client, (await _bytes(client, 1))[0])
    if NO_PASSWORD not in methods:
        raise Unspoken("SOCKS with a password is not spoken", NO_METHOD)
    client.write(bytes((SOCKS5, NO_PASSWORD)))


async def _host(client: Wire, kind: int) -> str:
    if kind == NAME:
        raw = await _bytes(client, (await _bytes(client, 1))[0])
        try:
            return canonical_host(raw.decode())
        except UnicodeDecodeError:
            raise Refused("not a host name", 400) from None
    if kind in (IPV4, IPV6):
        return canonical_address(await _bytes(client, 4 if kind == IPV4 else 16))
    raise Unspoken("an unknown kind of SOCKS address", refusing(KIND_UNKNOWN))


async def _bytes(client: Wire, count: int) -> bytes:
    while len(client.held) < count:
        if not await client.more():
            raise Unspoken("it ended in the middle of a SOCKS request", b"")
    return client.use(count)


def refusing(code: int) -> bytes:
    return bytes((SOCKS5, code)) + ACCEPTED[2:]


def reply_to(refusal: Refused | Failed) -> bytes:
    if isinstance(refusal, Unspoken):
        return refusal.reply
    return refusing(_CODES.get(refusal.status, 1))
