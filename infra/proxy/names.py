"""One spelling for each host."""

import functools
import ipaddress
import re
import socket

from contracts.hostnames import fold
from infra.proxy.port import Refused

_NUMBERS = re.compile(r"(?:(?:[0-9]+|0x[0-9a-f]*)\.){0,3}(?:[0-9]+|0x[0-9a-f]*)\.?", re.IGNORECASE)
_PORT = re.compile(r"[1-9][0-9]{0,4}")


def canonical_host(text: str) -> str:
    """A name in lower case and A-labels without the dot at its end, or an address as `ipaddress` spells it.

    What `inet_aton` takes for an IPv4 address (octal, hexadecimal, fewer than four parts) becomes that address, and
    so does one that is mapped into IPv6. Raises `Refused` for what is neither a name nor an address.
    """
    if text.startswith("["):
        return _bracketed(text)
    if ":" in text:
        return _address6(text)
    return fold(text) or _numeric(text)


def canonical_address(packed: bytes) -> str:
    """Of 4 or 16 bytes."""
    return _spelled(ipaddress.ip_address(packed))


@functools.lru_cache(1024)
def split_authority(text: str, default_port: int | None) -> tuple[str, int]:
    """Host and port, the host canonical. Raises `Refused` for userinfo, an odd port, and none without a default."""
    if "@" in text:
        raise Refused("a user name or password in the address is not taken", 400)
    host, port = _split(text)
    if port is None:
        if default_port is None:
            raise Refused("no port in the address", 400)
        return canonical_host(host), default_port
    if _PORT.fullmatch(port) is None or int(port) > 65_535:
        raise Refused("not a port", 400)
    return canonical_host(host), int(port)


def authority(host: str, port: int, default_port: int | None) -> str:
    """As it is written in a URL or a `Host`."""
    spelled = f"[{host}]" if ":" in host else host
    return spelled if port == default_port else f"{spelled}:{port}"


def _split(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        inside, bracket, after = text.partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise Refused("not an address", 400)
        return f"{inside}]", after[1:] if after else None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _bracketed(text: str) -> str:
    if not text.endswith("]"):
        raise Refused("not an address", 400)
    return _address6(text[1:-1])


def _address6(text: str) -> str:
    if "%" in text:
        raise Refused("an address with a zone is not taken", 400)
    try:
        return _spelled(ipaddress.IPv6Address(text))
    except ValueError:
        raise Refused("not an IPv6 address", 400) from None


def _spelled(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _numeric(text: str) -> str:
    if _NUMBERS.fullmatch(text) is None:
        raise Refused("not a host name", 400)
    try:
        return str(ipaddress.IPv4Address(socket.inet_aton(text.removesuffix("."))))
    except OSError:
        raise Refused("not an IPv4 address", 400) from None
