"""Reading heads from a connection."""

from infra.proxy.head import BARE, END, ResponseHead, read_response, too_large
from infra.proxy.limits import HEAD_BYTES
from infra.proxy.port import Refused
from infra.proxy.wire import Wire


async def raw_head(wire: Wire) -> bytes:
    """The bytes before the empty line. Empty when the connection ended before there were any.

    Raises `Refused` as soon as it cannot become a head, and `Broken`.
    """
    looked = 0
    while (end := wire.held.find(END, looked)) < 0:
        if len(wire.held) > HEAD_BYTES:
            raise too_large()
        if BARE.search(wire.held, looked):
            raise Refused("a line end that is not CR LF", 400)
        looked = max(0, len(wire.held) - len(END))
        if not await wire.more():
            if wire.held:
                raise Refused("it ended in the middle of a head", 400)
            return b""
    if end > HEAD_BYTES:
        raise too_large()
    return wire.use(end + len(END))[:end]


async def response_head(wire: Wire) -> ResponseHead | None:
    """None when the connection ended without one. Raises `Refused` with 502, and `Broken`."""
    try:
        raw = await raw_head(wire)
        return read_response(raw) if raw else None
    except Refused as refusal:
        raise Refused(f"the answer: {refusal.reason}", 502) from None
