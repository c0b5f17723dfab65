"""Which addresses nobody inside may reach. Pure."""

import ipaddress
from collections.abc import Iterable, Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

METADATA: tuple[Network, ...] = tuple(
    ipaddress.ip_network(each)
    for each in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254")
)
SPECIAL: dict[str, tuple[Network, ...]] = {
    "the address of a cloud's metadata": METADATA,
    "an unspecified address": (ipaddress.ip_network("0.0.0.0/8"), ipaddress.ip_network("::/128")),
    "a loopback address": (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")),
    "a link-local address": (ipaddress.ip_network("169.254.0.0/16"), ipaddress.ip_network("fe80::/10")),
    "a private address": (
        ipaddress.ip_network("10.0.0.0/8"),
        ipaddress.ip_network("172.16.0.0/12"),
        ipaddress.ip_network("192.168.0.0/16"),
        ipaddress.ip_network("fc00::/7"),
        ipaddress.ip_network("fec0::/10"),
    ),
    "an address shared by a carrier": (ipaddress.ip_network("100.64.0.0/10"),),
    "a multicast address": (ipaddress.ip_network("224.0.0.0/4"), ipaddress.ip_network("ff00::/8")),
    "a documentation address": (
        ipaddress.ip_network("192.0.2.0/24"),
        ipaddress.ip_network("198.51.100.0/24"),
        ipaddress.ip_network("203.0.113.0/24"),
        ipaddress.ip_network("2001:db8::/32"),
        ipaddress.ip_network("3fff::/20"),
    ),
    "a benchmarking address": (ipaddress.ip_network("198.18.0.0/15"), ipaddress.ip_network("2001:2::/48")),
    "an IPv4 address within an IPv6 one": (
        ipaddress.ip_network("::ffff:0:0/96"),
        ipaddress.ip_network("::/96"),
        ipaddress.ip_network("::ffff:0:0:0/96"),
        ipaddress.ip_network("64:ff9b::/96"),
        ipaddress.ip_network("64:ff9b:1::/48"),
        ipaddress.ip_network("2002::/16"),
        ipaddress.ip_network("2001::/32"),
    ),
    "a reserved address": (
        ipaddress.ip_network("192.0.0.0/24"),
        ipaddress.ip_network("192.88.99.0/24"),
        ipaddress.ip_network("240.0.0.0/4"),
        ipaddress.ip_network("2001::/23"),
    ),
}
PUBLIC_6 = ipaddress.ip_network("2000::/3")
"""Everything that is handed out for the public lies there."""
ISATAP = (0x0000_5EFE, 0x0200_5EFE)


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


def why_forbidden(address: Address, permitted: tuple[Network, ...] = ()) -> str | None:
    """What kind of address it is, where nobody may reach it; None for one that may be reached.

    `permitted` is the operator's word and covers exactly what it says: an IPv4 address that hides within an IPv6 one is
    judged by itself as well.
    """
    if not any(_within(address, network) for network in permitted):
        kind = kind_of(address)
        if kind is not None:
            return kind
    for hidden in embedded(address):
        kind = why_forbidden(hidden, permitted)
        if kind is not None:
            return f"{kind} within an IPv6 one"
    return None


def kind_of(address: Address) -> str | None:
    """Why it is not of the public; None if it is."""
    for kind, networks in SPECIAL.items():
        if any(_within(address, network) for network in networks):
            return kind
    return "a reserved address" if address.version == 6 and not _within(address, PUBLIC_6) else None


def embedded(address: Address) -> Iterator[ipaddress.IPv4Address]:
    """The IPv4 addresses that it leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    number = int(address)
    low = ipaddress.IPv4Address(number & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo
    elif _within(address, ipaddress.ip_network("64:ff9b:1::/48")):
        # The operator of a translator chooses where in these it puts the address.
        yield ipaddress.IPv4Address(((number >> 48) & 0xFFFF_0000) | ((number >> 40) & 0xFFFF))
        yield low
    elif number >> 32 in (0, 0xFFFF, 0xFFFF_0000) or _within(address, ipaddress.ip_network("64:ff9b::/96")):
        if number > 1:
            yield low
    elif (number >> 32) & 0xFFFF_FFFF in ISATAP:
        yield low


def _within(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network
