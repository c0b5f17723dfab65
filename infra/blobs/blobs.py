"""Contents by their sha256: stored once however often they are put, and checked whenever they are read."""

import asyncio
import contextlib
import datetime
import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from contracts.errors import ClocheError, Conflict, Unavailable
from infra import clock
from infra.blobs import layout, reading
from infra.blobs.batch import MAX_BYTES, MAX_MESSAGES, Message, append_batch
from infra.blobs.errors import StoreFull
from infra.blobs.guarded import append_after
from infra.blobs.known import Known
from infra.blobs.layout import ObjectInfo
from infra.blobs.reading import Stored
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.publisher import FIRST_PAUSE_S, LONGEST_PAUSE_S
from infra.observing import catalogue

GRACE_S = 24 * 3600.0
"""How long a blob is kept that nothing refers to: whoever puts one has to refer to it well before that is over."""
_RENEWED_AFTER = 1 / 4
"""Of the grace: a blob that was stored longer ago is renewed when it is put again, so that no sweep takes it."""
_TRUSTED_FOR = 1 / 24
FEW = 2
"""So many are stored sooner one by one: a batch costs the server as much as a few messages."""
RENEWED_AT_ONCE = 32
HASH_IN_THREAD_BYTES = 256 * 1024


class Written(NamedTuple):
    sha256: str
    size: int


class Blobs:
    """The bucket of blobs, as one user of the bus sees it. Only the file watcher may put."""

    def __init__(self, bus: Bus, *, grace_s: float = GRACE_S) -> None:
        self.bus = bus
        self._renewed_after = datetime.timedelta(seconds=grace_s * _RENEWED_AFTER)
        self._known = Known(grace_s * _TRUSTED_FOR)

    async def put(self, data: bytes) -> str:
        """Returns the sha256. Repeated until it is stored, like `publisher.append`. Raises `Denied`, `StoreFull`."""
        return (await self.put_many([data]))[0]

    async def put_many(self, contents: Sequence[bytes]) -> list[str]:
        """Their sha256 in the same order. Thousands of small ones take few round trips.

        Raises `Denied`, `StoreFull` (some may be stored).
        """
        names = [await _sha256(data) for data in contents]
        await self.put_named(dict(zip(names, contents, strict=True)))
        return names

    async def put_named(self, contents: Mapping[str, bytes]) -> None:
        """Of whose sha256 the caller is sure. Raises what `put_many` raises."""
        wanted = {name: data for name, data in contents.items() if name not in self._known}
        for group in _grouped(wanted):
            await self._patiently(group)

    async def put_chunks(self, chunks: AsyncIterator[bytes]) -> Written:
        """Content of any size, of which no more than one chunk is held.

        Raises `Denied`, `StoreFull`, `Unavailable` (what was stored of it is gone: put it again), and what `chunks`
        raises. Then nothing is left of it.
        """
        nuid, hashed, size, count, last = layout.new_nuid(), hashlib.sha256(), 0, 0, 0
        try:
            async for chunk in _even(chunks):
                await _add(hashed, chunk)
                last = await self._put_chunk(nuid, chunk, last)
                size, count = size + len(chunk), count + 1
            info = layout.object_info(hashed.hexdigest(), nuid, size, count)
            is_ours = await self._name(info)
        except Exception:
            await self._abandon(nuid)
            raise
        if is_ours:
            _count(1, size)
        else:
            await self._abandon(nuid)
        return Written(info.name, size)

    async def has(self, sha256: str) -> bool:
        """Raises `Unavailable`, `Invalid` (not a name)."""
        return sha256 in await reading.find(self.bus, [sha256])

    async def missing(self, names: Iterable[str]) -> set[str]:
        """Those that are not stored. Raises what `has` raises."""
        missing: set[str] = set()
        for some in reading.batched(set(names)):
            missing.update(set(some) - (await reading.find(self.bus, some)).keys())
        self._known.discard(missing)
        return missing

    async def renew(self, names: Iterable[str]) -> set[str]:
        """No sweep takes them for most of the grace, even one under way. Returns those that are not stored.

        Raises what `has` raises, `Denied`, `StoreFull`.
        """
        missing: set[str] = set()
        for some in reading.batched(set(names)):
            missing |= await self._renew_some(some)
        self._known.discard(missing)
        return missing

    async def _renew_some(self, names: list[str]) -> set[str]:
        stored = await reading.find(self.bus, names)
        missing, there = set(names) - stored.keys(), list(stored.values())
        for some in (there[at : at + RENEWED_AT_ONCE] for at in range(0, len(there), RENEWED_AT_ONCE)):
            kept = await asyncio.gather(*map(self._is_kept, some))
            missing |= {each.info.name for each, is_kept in zip(some, kept, strict=True) if not is_kept}
        return missing

    async def get(self, sha256: str, max_bytes: int = reading.MAX_BYTES) -> bytes:
        """Raises `BlobMissing`, `BlobDamaged`, `Unavailable`, `Invalid` (not a name, or larger than `max_bytes`)."""
        return await reading.whole(self.bus, sha256, max_bytes)

    def stream(self, sha256: str) -> AsyncIterator[bytes]:
        """Chunk by chunk. Raises what `get` raises; `BlobDamaged` instead of the last chunk, so read to the end."""
        return reading.chunks(self.bus, sha256)

    def get_many(self, names: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        """See `reading.many`."""
        return reading.many(self.bus, names)

    async def _patiently(self, contents: Mapping[str, bytes]) -> None:
        pause = FIRST_PAUSE_S
        while True:
            await self.bus.wait_connected()
            try:
                await self._attempt(contents)
                break
            except StoreFull:
                raise
            except (Conflict, Unavailable):
                # Somebody put one of them meanwhile, or it is uncertain what was stored: the next look tells.
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
        for name in contents:
            self._known.add(name)

    async def _attempt(self, contents: Mapping[str, bytes]) -> None:
        stored = await reading.find(self.bus, contents)
        for each in stored.values():
            await self._renew(each)
        new = {name: data for name, data in contents.items() if name not in stored}
        if len(new) <= FEW or sum(map(len, new.values())) > MAX_BYTES:
            for data in new.values():
                await self.put_chunks(_once(data))
        elif new:
            await append_batch(self.bus, [message for name, data in new.items() for message in _messages(name, data)])
            _count(len(new), sum(map(len, new.values())))

    async def _renew(self, stored: Stored) -> None:
        """Raises `Conflict` if it was removed or renewed meanwhile, `Unavailable`."""
        if clock.now() - stored.entry.time > self._renewed_after:
            info, subject = stored.info, layout.object_subject(stored.info.name)
            await append_after(self.bus, subject, layout.encode_info(info), stored.entry.seq, instead=True)

    async def _is_kept(self, stored: Stored) -> bool:
        try:
            await self._renew(stored)
        except Conflict:
            # Somebody has renewed it, or a sweep was sooner.
            return await self.has(stored.info.name)
        return True

    async def _put_chunk(self, nuid: str, chunk: bytes, after: int) -> int:
        """Returns its sequence. The subject is ours alone, so what is found there was put by an earlier attempt.

        Raises `StoreFull`, and `Unavailable` when the chunk before it is gone: then the whole has to be put again.
        """
        subject, pause = layout.chunks_subject(nuid), FIRST_PAUSE_S
        while True:
            try:
                return await append_after(self.bus, subject, chunk, after)
            except StoreFull:
                raise
            except (Conflict, Unavailable):
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
            await self.bus.wait_connected()
            try:
                last = await page.fetch_last(self.bus, subject, stream=layout.STREAM)
            except Unavailable:
                continue
            found = last.seq if last is not None else 0
            if found > after:
                return found
            if found < after:
                raise Unavailable(f"{subject}: what was stored of it is gone")

    async def _name(self, info: ObjectInfo) -> bool:
        """Makes the object exist; False if one of the same content does already, with other chunks.

        Raises `StoreFull`.
        """
        subject, pause = layout.object_subject(info.name), FIRST_PAUSE_S
        while True:
            try:
                stored = (await reading.find(self.bus, [info.name])).get(info.name)
                if stored is None:
                    await append_after(self.bus, subject, layout.encode_info(info), 0)
                    return True
                await self._renew(stored)
                return stored.info.nuid == info.nuid
            except StoreFull:
                raise
            except (Conflict, Unavailable):
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
            await self.bus.wait_connected()

    async def _abandon(self, nuid: str) -> None:
        """What cannot be removed now is left to the sweep of garbage."""
        with contextlib.suppress(ClocheError):
            await self.bus.api(f"STREAM.PURGE.{layout.STREAM}", {"filter": layout.chunks_subject(nuid)})


def _count(blobs: int, size: int) -> None:
    catalogue.blobs_stored.add(amount=blobs)
    catalogue.blob_bytes_stored.add(amount=size)


async def _sha256(data: bytes) -> str:
    hashed = hashlib.sha256()
    await _add(hashed, data)
    return hashed.hexdigest()


async def _add(hashed: "hashlib._Hash", data: bytes) -> None:
    """What takes long is done where it keeps nobody waiting."""
    if len(data) < HASH_IN_THREAD_BYTES:
        hashed.update(data)
    else:
        await asyncio.to_thread(hashed.update, data)


def _messages(name: str, data: bytes) -> Iterator[Message]:
    nuid, chunks = layout.new_nuid(), layout.cut(data)
    for chunk in chunks:
        yield Message(layout.chunks_subject(nuid), chunk)
    info = layout.object_info(name, nuid, len(data), len(chunks))
    yield Message(layout.object_subject(name), layout.encode_info(info), new=True)


def _grouped(contents: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Each small enough for one batch, or a single content that is not."""
    group: dict[str, bytes] = {}
    size = messages = 0
    for name, data in contents.items():
        needed = len(data) // layout.CHUNK_BYTES + 2
        if group and (size + len(data) > MAX_BYTES or messages + needed > MAX_MESSAGES):
            yield group
            group, size, messages = {}, 0, 0
        group[name] = data
        size, messages = size + len(data), messages + needed
    if group:
        yield group


async def _even(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in chunks of our own size."""
    waiting = bytearray()
    async for chunk in chunks:
        waiting += chunk
        while len(waiting) >= layout.CHUNK_BYTES:
            yield bytes(waiting[: layout.CHUNK_BYTES])
            del waiting[: layout.CHUNK_BYTES]
    if waiting:
        yield bytes(waiting)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
