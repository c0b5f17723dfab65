"""What a client speaks in its tunnel, by the first that it says."""

import asyncio
import re
from enum import Enum, auto

from infra.proxy.connection import Connection, Phase
from infra.proxy.head import TOKEN, too_large
from infra.proxy.hello import HANDSHAKE, HelloReader
from infra.proxy.limits import HEAD_BYTES
from infra.proxy.port import Refused, Wanted
from infra.proxy.wire import Wire

WEB_PORTS = frozenset((80, 443))
"""Where nothing but TLS and HTTP is let through."""
PATIENCE_S = 1.0
"""For what may still become a request, where something else may be said too."""
_REQUEST_LINE = re.compile(TOKEN + rb"++\s[^\n]*\sHTTP/\d", re.IGNORECASE)
_BEGUN = re.compile(TOKEN + rb"{1024}|" + TOKEN + rb"++(?:\s|\Z)")


class Speech(Enum):
    TLS = auto()
    HTTP = auto()
    OTHER = auto()


class FirstLine:
    """Fed with all that came so far, each time. Whatever some server may take for a request is one: it goes to a
    reader that is less lenient."""

    def __init__(self) -> None:
        self._looked = 0

    def read(self, data: bytes) -> Speech | None:
        """None while it may still become a request. Raises `Refused` for one that does not end."""
        begin = len(data) - len(data.lstrip())
        end = data.find(b"\n", max(begin, self._looked))
        self._looked = len(data)
        if end >= 0:
            return Speech.HTTP if _REQUEST_LINE.match(data, begin, end) else Speech.OTHER
        if begin < len(data) and not _BEGUN.match(data, begin):
            return Speech.OTHER
        if len(data) > HEAD_BYTES:
            raise too_large()
        return None


def on_the_web(wanted: Wanted) -> bool:
    return wanted.port in WEB_PORTS


async def look(client: Connection, upstream: Wire, wanted: Wanted) -> Speech:
    """Waits for as much as is needed; uses nothing up, but for what is passed on since it takes its time.

    Raises `Refused` where TLS names somebody else than the tunnel leads to, for what is neither TLS nor HTTP on a
    port of the web, and for a request of which some has been passed on.
    """
    client.enter(Phase.JOINED)
    if not client.held and not await client.more():
        return Speech.OTHER
    client.enter(Phase.HEAD)
    if client.held[0] == HANDSHAKE:
        speech = await _hello(client, wanted)
    elif on_the_web(wanted):
        speech = await _line(client, FirstLine())
    else:
        speech = await _line_or_other(client, upstream)
    client.enter(Phase.JOINED)
    if speech is Speech.OTHER and on_the_web(wanted):
        raise Refused(f"neither TLS nor HTTP on port {wanted.port}")
    return speech


async def _hello(client: Connection, wanted: Wanted) -> Speech:
    reader = HelloReader()
    while (said := reader.read(client.held)) is None:
        if not await client.more():
            return Speech.OTHER
    _agree(said.name, wanted)
    return Speech.TLS


async def _line(client: Connection, line: FirstLine) -> Speech:
    while (speech := line.read(client.held)) is None:
        if not await client.more():
            return Speech.OTHER
    return speech


async def _line_or_other(client: Connection, upstream: Wire) -> Speech:
    line = FirstLine()
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _line(client, line)
    except TimeoutError:
        return await _passed_on(client, upstream, line)


async def _passed_on(client: Connection, upstream: Wire, line: FirstLine) -> Speech:
    """What waits for an answer to half a line gets it, and still cannot make a request of it."""
    client.enter(Phase.JOINED)
    said = b""
    while True:
        said += client.held
        upstream.write(client.use(len(client.held)))
        await upstream.drain()
        if not await client.more():
            return Speech.OTHER
        speech = line.read(said + client.held)
        if speech is Speech.HTTP:
            raise Refused("a request whose first line came too slowly")
        if speech is Speech.OTHER:
            return speech


def _agree(name: str | None, wanted: Wanted) -> None:
    if name == (None if _is_address(wanted.host) else wanted.host):
        return
    if name is None:
        raise Refused("the TLS client names no server")
    raise Refused(f"the TLS client names another server, {name[:253]!r}")


def _is_address(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdigit()
