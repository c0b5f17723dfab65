"""What a client speaks in its tunnel, by the first that it says."""

import re
from enum import Enum, auto

from infra.proxy.connection import Connection, Phase
from infra.proxy.hello import HANDSHAKE, HelloReader
from infra.proxy.port import Refused, Wanted

WEB_PORTS = frozenset((80, 443))
"""Where nothing but TLS and HTTP is let through."""
LONGEST_LINE = 8192
_REQUEST_LINE = re.compile(rb"[A-Za-z-]+ [^\r\n]+ HTTP/1\.[01]\r?\n")
_MAY_BECOME = re.compile(rb"[A-Za-z-]{1,32}(?: [^\r\n]*)?\r?")


class Speech(Enum):
    TLS = auto()
    HTTP = auto()
    OTHER = auto()


async def look(client: Connection, wanted: Wanted) -> Speech:
    """Waits for as much as is needed; uses nothing up.

    Raises `Refused` where TLS names somebody else than the tunnel leads to, and for what is neither TLS nor HTTP on
    a port of the web.
    """
    hello = HelloReader()
    client.enter(Phase.JOINED)
    while not client.held:
        if not await client.more():
            return Speech.OTHER
    client.enter(Phase.HEAD)
    while (speech := _speech(client.held, hello, wanted)) is None:
        if not await client.more():
            return _known(Speech.OTHER, wanted)
    client.enter(Phase.JOINED)
    return _known(speech, wanted)


def _speech(data: bytes, hello: HelloReader, wanted: Wanted) -> Speech | None:
    if data[0] == HANDSHAKE:
        said = hello.read(data)
        if said is None:
            return None
        _agree(said.name, wanted)
        return Speech.TLS
    if _REQUEST_LINE.match(data):
        return Speech.HTTP
    undecided = len(data) < LONGEST_LINE and _MAY_BECOME.fullmatch(data)
    return None if undecided else Speech.OTHER


def _known(speech: Speech, wanted: Wanted) -> Speech:
    if speech is Speech.OTHER and wanted.port in WEB_PORTS:
        raise Refused(f"neither TLS nor HTTP on port {wanted.port}")
    return speech


def _agree(name: str | None, wanted: Wanted) -> None:
    if name == (None if _is_address(wanted.host) else wanted.host):
        return
    if name is None:
        raise Refused("the TLS client names no server")
    raise Refused(f"the TLS client names another server, {name[:253]!r}")


def _is_address(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdigit()
