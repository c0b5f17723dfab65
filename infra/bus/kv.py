"""Thin access to a KV bucket: a read model that can be thrown away, so only what that needs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from contracts.errors import Invalid
from infra import ids
from infra.bus import headers, page
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.bus.publisher import append
from infra.bus.stream_config import kv_told

IDLE_CHECK_S = 5.0


class Change(NamedTuple):
    key: str
    value: bytes | None
    """None = deleted."""
    revision: int


class Bucket:
    """Bytes by key. Keys are letters, digits, `-`, `_`, `=`, `/` and `.`; only the replay user may write."""

    def __init__(self, bus: Bus, name: str) -> None:
        self._bus = bus
        self._prefix = f"$KV.{name}."
        self._stream = f"KV_{name}"
        self._told = kv_told(name)

    async def get(self, key: str) -> bytes | None:
        """None for a key that is missing, deleted or expired. Raises `Unavailable`."""
        found = await page.fetch_last(self._bus, self._subject(key), stream=self._stream)
        return _value(found) if found else None

    async def put(self, key: str, value: bytes) -> int:
        """Returns the revision. Repeated until stored, like `publisher.append`. Raises `Denied`, `Invalid`."""
        ack = await append(self._bus, self._subject(key), value, ids.new_id("kv"), stream=self._stream)
        return ack.seq

    async def all(self) -> dict[str, bytes]:
        """Every key that has a value. Raises `Unavailable`."""
        found: dict[str, bytes] = {}
        async for entry in self._stored(1):
            value = _value(entry)
            if value is None:
                found.pop(self._key(entry), None)
            else:
                found[self._key(entry)] = value
        return found

    async def watch(self) -> AsyncIterator[Change]:
        """What is there, then each change, for ever. In between only the newest value of a key may be seen.

        Raises `Unavailable` when the connection is lost: watch again from the start.
        """
        news = asyncio.Event()
        tap = await self._bus.tap(self._told, lambda *_: news.set())
        stop_watching = self._bus.on_lost(news.set)
        start = 1
        try:
            while True:
                news.clear()
                async for entry in self._stored(start):
                    yield Change(self._key(entry), _value(entry), entry.seq)
                    start = entry.seq + 1
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_CHECK_S):
                        await news.wait()
        finally:
            stop_watching()
            await self._bus.client.untap(tap)

    async def _stored(self, start: int) -> AsyncIterator[Entry]:
        while True:
            found = await page.fetch(self._bus, f"{self._prefix}>", start, stream=self._stream)
            for entry in found.entries:
                yield entry
            if not found.pending or not found.entries:
                return
            start = found.entries[-1].seq + 1

    def _subject(self, key: str) -> str:
        if not key or any(char in key for char in " *>\t\r\n") or key.startswith(".") or key.endswith("."):
            raise Invalid(f"{key[:80]!r} is not a key")
        return self._prefix + key

    def _key(self, entry: Entry) -> str:
        return entry.subject.removeprefix(self._prefix)


def _value(entry: Entry) -> bytes | None:
    """A deleted key leaves a marker behind, an expired one may."""
    if headers.get(entry.headers, b"KV-Operation") or headers.get(entry.headers, b"Nats-Marker-Reason"):
        return None
    return entry.data
