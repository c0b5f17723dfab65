"""Whether several servers keep a stream: then any of them answers a reader, also one that lags behind.

What such a server has is a beginning of what the leader has: nothing in it is wrong, and its end may be missing. So
whoever comes to an end asks the leader whether it is the end.
"""

import base64
import time
import weakref
from typing import Any

from infra.bus.connection import Bus
from infra.bus.errors import NO_MESSAGE_FOUND, STREAM_NOT_FOUND, ApiError

TRUSTED_S = 60.0
"""How long a connection takes the number of a stream's replicas for what it was."""


class _Known:
    def __init__(self, replicas: int, epoch: int, *, clustered: bool) -> None:
        self.replicas = replicas
        self.clustered = clustered
        self.epoch = epoch
        self.until = time.monotonic() + TRUSTED_S


_by_bus: weakref.WeakKeyDictionary[Bus, dict[str, _Known]] = weakref.WeakKeyDictionary()


def note(bus: Bus, stream: str, info: dict[str, Any]) -> None:
    """Learn from an answer of STREAM.INFO."""
    clustered = bool((info.get("cluster") or {}).get("name"))
    known = _Known(int(info["config"].get("num_replicas", 1)), bus.epoch, clustered=clustered)
    _by_bus.setdefault(bus, {})[stream] = known


async def are_several(bus: Bus, stream: str) -> bool:
    """Raises `Unavailable`."""
    known = await _known(bus, stream)
    return known is not None and known.replicas > 1


async def may_be_several(bus: Bus, stream: str) -> bool:
    """Whether it is kept by a part of a cluster: one copy becomes three there while its writers go on. Raises
    `Unavailable`.
    """
    known = await _known(bus, stream)
    return known is not None and known.clustered


async def _known(bus: Bus, stream: str) -> _Known | None:
    """None for a stream that is not there."""
    known = _by_bus.setdefault(bus, {}).get(stream)
    if known is None or known.epoch != bus.epoch or time.monotonic() > known.until:
        try:
            note(bus, stream, await bus.api(f"STREAM.INFO.{stream}"))
        except ApiError as error:
            if error.number != STREAM_NOT_FOUND:
                raise
            return None
        known = _by_bus[bus][stream]
    return known


async def ask_leader(bus: Bus, stream: str, body: dict[str, Any]) -> tuple[bytes, bytes] | None:
    """One message, as a direct get would answer: its data and its headers. Raises `Unavailable`."""
    try:
        answer = await bus.api(f"STREAM.MSG.GET.{stream}", body)
    except ApiError as error:
        if error.number != NO_MESSAGE_FOUND:
            raise
        return None
    message = answer["message"]
    return base64.b64decode(message.get("data", "")), _headers(stream, message)


def _headers(stream: str, message: dict[str, Any]) -> bytes:
    own = base64.b64decode(message.get("hdrs", "")) or b"NATS/1.0\r\n\r\n"
    added = {
        "Nats-Stream": stream,
        "Nats-Subject": message["subject"],
        "Nats-Sequence": message["seq"],
        "Nats-Time-Stamp": message["time"],
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in added.items()).encode()
    return own.removesuffix(b"\r\n") + lines + b"\r\n"
