"""Thin access to a KV bucket: a read model that can be thrown away, so only what that needs."""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator
from typing import NamedTuple

from contracts.errors import Conflict, Invalid, Unavailable
from infra import ids
from infra.bus import headers, page
from infra.bus.connection import Bus
from infra.bus.errors import STREAM_NOT_FOUND, WRONG_LAST_SEQUENCE, ApiError
from infra.bus.page import Entry
from infra.bus.publisher import EXPECTED_SEQUENCE, Expect, append, parse_ack
from infra.bus.stream_config import kv_told

IDLE_CHECK_S = 5.0


class Change(NamedTuple):
    key: str
    value: bytes | None
    """None = deleted."""
    revision: int


class Kept(NamedTuple):
    value: bytes
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

    async def find(self, key: str) -> Kept | None:
        """As `get`, with the revision that guards a change of it."""
        found = await page.fetch_last(self._bus, self._subject(key), stream=self._stream)
        value = _value(found) if found else None
        return None if found is None or value is None else Kept(value, found.seq)

    async def newest(self, key: str) -> Change:
        """As it was last changed; revision 0 where it never was. Raises `Unavailable`."""
        found = await page.fetch_last(self._bus, self._subject(key), stream=self._stream)
        return Change(key, None, 0) if found is None else Change(key, _value(found), found.seq)

    async def changed_at(self, key: str) -> datetime.datetime | None:
        """When it was last changed, by the server's clock. Raises `Unavailable`."""
        found = await page.fetch_last(self._bus, self._subject(key), stream=self._stream)
        return None if found is None else found.time

    async def put(self, key: str, value: bytes, *, revision: int | None = None, timeout_s: float | None = None) -> int:
        """Returns the revision. Repeated until stored, like `publisher.append`. Raises `Denied`, `Invalid`.

        Given a revision, raises `Conflict` unless that is the key's newest (0 = it was never there). Given a time,
        raises `Unavailable` after it.
        """
        subject = self._subject(key)
        expect = None if revision is None else Expect(subject, revision)
        ack = await append(
            self._bus, subject, value, ids.new_id("kv"), expect=expect, timeout_s=timeout_s, stream=self._stream
        )
        return ack.seq

    async def forget(self, key: str, *, revision: int) -> None:
        """Raises `Conflict` unless that is the key's newest revision, `Unavailable`."""
        headers = {"KV-Operation": "DEL", EXPECTED_SEQUENCE: str(revision)}
        reply = await self._bus.request(self._subject(key), b"", headers=headers)
        try:
            parse_ack(reply.data)
        except ApiError as error:
            if error.number in WRONG_LAST_SEQUENCE:
                raise Conflict(f"{key} has moved past revision {revision}") from error
            raise

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

    async def kept(self) -> dict[str, Kept]:
        """As `all`, with the revisions. Raises `Unavailable`."""
        found: dict[str, Kept] = {}
        async for entry in self._stored(1):
            value = _value(entry)
            if value is None:
                found.pop(self._key(entry), None)
            else:
                found[self._key(entry)] = Kept(value, entry.seq)
        return found

    async def is_gone(self) -> bool:
        """Whether there is no such bucket. Raises `Unavailable` where nobody can tell."""
        try:
            await self._bus.api(f"STREAM.INFO.{self._stream}")
        except ApiError as error:
            if error.number == STREAM_NOT_FOUND:
                return True
            raise Unavailable(error.message) from error
        return False

    async def _made_at(self) -> str:
        try:
            return str((await self._bus.api(f"STREAM.INFO.{self._stream}"))["created"])
        except ApiError as error:
            raise Unavailable(error.message) from error

    async def watch(self) -> AsyncIterator[Change]:
        """What is there, then each change, for ever. In between only the newest value of a key may be seen.

        Raises `Unavailable` when the connection is lost, or the bucket was made anew: watch again from the start.
        """
        news = asyncio.Event()
        tap = await self._bus.tap(self._told, lambda *_: news.set())
        stop_watching = self._bus.on_lost(news.set)
        start = 1
        try:
            made = await self._made_at()
            while True:
                news.clear()
                known = start
                async for entry in self._stored(start):
                    yield Change(self._key(entry), _value(entry), entry.seq)
                    start = entry.seq + 1
                if start == known and await self._made_at() != made:
                    raise Unavailable("the bucket was made anew, and counts from 1 again")
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
