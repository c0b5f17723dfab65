"""Connections to other hosts: new ones, and those that were kept."""

import asyncio
import ssl
import time

from msgspec import Struct

from infra.proxy.answers import Failed
from infra.proxy.wire import Wire

KEPT_S = 30.0
KEPT_PER_PLACE = 16
KEPT = 128
FRESH_S = 3.0
"""Many servers close what is idle for five seconds; what cannot be repeated is not sent into that."""


class Place(Struct, frozen=True):
    host: str
    """The name that it was permitted by, and that TLS is to prove."""
    address: str
    port: int
    tls: bool = False


class _Kept(Struct, frozen=True):
    wire: Wire
    since: float

    def usable(self, within_s: float) -> bool:
        # Whatever comes unasked belongs to no request.
        wire = self.wire
        return not (wire.held or wire.eof or wire.lost) and time.monotonic() - self.since < within_s


class Upstreams:
    """Of one sandbox."""

    def __init__(self, connect_timeout_s: float) -> None:
        self.tls: ssl.SSLContext | None = None
        self._timeout_s = connect_timeout_s
        self._kept: dict[Place, list[_Kept]] = {}
        self._count = 0

    def kept(self, place: Place, *, repeatable: bool) -> Wire | None:
        """One that was used for the same place, for a request that was permitted to go there."""
        waiting = self._kept.get(place, [])
        while waiting:
            last = waiting.pop()
            self._count -= 1
            if last.usable(KEPT_S if repeatable else FRESH_S):
                return last.wire
            last.wire.abort()
        self._kept.pop(place, None)
        return None

    def keep(self, place: Place, wire: Wire) -> None:
        waiting = self._kept.setdefault(place, [])
        if len(waiting) >= KEPT_PER_PLACE or self._count >= KEPT or wire.eof or wire.lost or wire.held:
            wire.abort()
            return
        # Only one that is read from can be seen to be closed.
        wire.resume()
        waiting.append(_Kept(wire, time.monotonic()))
        self._count += 1

    def sweep(self) -> None:
        """Closes those that nobody needed, and those that the other side has closed."""
        for place, waiting in list(self._kept.items()):
            usable = [each for each in waiting if each.usable(KEPT_S)]
            for each in waiting:
                if each not in usable:
                    each.wire.abort()
            self._count -= len(waiting) - len(usable)
            self._kept[place] = usable
            if not usable:
                del self._kept[place]

    @property
    def empty(self) -> bool:
        return not self._kept

    def close(self) -> None:
        for waiting in self._kept.values():
            for each in waiting:
                each.wire.abort()
        self._kept.clear()
        self._count = 0

    async def dial(self, place: Place) -> Wire:
        """Raises `Failed`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._connect(place)
        except TimeoutError:
            raise Failed(f"no connection within {self._timeout_s:g} s", 504) from None
        except ssl.SSLCertVerificationError as error:
            raise Failed(f"its certificate is not trusted: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise Failed(f"TLS failed: {error.reason or 'no reason given'}") from None
        except OSError as error:
            raise Failed(_words(error)) from None

    async def _connect(self, place: Place) -> Wire:
        tls = self.tls if place.tls else None
        assert not place.tls or tls is not None
        _, wire = await asyncio.get_running_loop().create_connection(
            lambda: Wire(tls=place.tls),
            place.address,
            place.port,
            ssl=tls,
            server_hostname=place.host if place.tls else None,
        )
        return wire


def _words(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror or "no connection").lower()
