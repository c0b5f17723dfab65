"""The one spelling of a host's name, so that two that mean the same are the same text."""

import functools
import ipaddress
import re

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
WILDCARD = "*."


LONGEST = 1024


def fold(name: str) -> str | None:
    """Lower case, without the dot at its end, in A-labels; an address as it is written canonically.

    None for what is no host: too long, other characters, an address in any other spelling (`0x7f.1`, `2130706433`,
    `[::1]`, `fe80::1%eth0`).
    """
    return _fold(name) if len(name) <= LONGEST else None


@functools.lru_cache(maxsize=4096)
def _fold(name: str) -> str | None:
    ascii_name = _to_ascii(name)
    if ascii_name is None:
        return None
    folded = ascii_name.lower().removesuffix(".")
    address = address_of(folded)
    if address is not None:
        return str(address)
    if len(folded) > 253 or not _NAME.match(folded):
        return None
    # A last label that is a number makes the whole an address to whoever resolves it, in one spelling of many.
    return None if _NUMBER.match(folded.rpartition(".")[2]) else folded


def fold_pattern(pattern: str) -> str | None:
    """The same for what may begin with `*.`."""
    if not pattern.startswith(WILDCARD):
        return fold(pattern)
    suffix = fold(pattern.removeprefix(WILDCARD))
    return None if suffix is None or address_of(suffix) is not None else WILDCARD + suffix


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None for a name, for a spelling other than the plain ones, and for an address with a zone."""
    if not (text[-1:].isdigit() or ":" in text):
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if "%" in text else address


def _to_ascii(name: str) -> str | None:
    if name.isascii():
        return name
    # Few names need it, and its tables would be a part of the start of every command line.
    import idna

    try:
        return idna.encode(name, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        return None
