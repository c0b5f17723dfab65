"""Blobs out of the bucket by direct get, so that a reader needs no right to write; each is checked against its name."""

import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from contracts.errors import Invalid
from infra.blobs import layout
from infra.blobs.errors import BlobDamaged, BlobMissing
from infra.blobs.layout import ObjectInfo
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.page import Entry

MAX_BYTES = 256 * 1024 * 1024
"""Of a blob that is handed over in one piece."""
_AT_ONCE = 400
_BYTES_AT_ONCE = 4 * 1024 * 1024


class Stored(NamedTuple):
    info: ObjectInfo
    entry: Entry


async def find(bus: Bus, names: Iterable[str]) -> dict[str, Stored]:
    """Those of `names` that are stored. Raises `Unavailable`, `Invalid` (not a name)."""
    found: dict[str, Stored] = {}
    for some in batched(names):
        subjects = [layout.object_subject(name) for name in some]
        for entry in await page.fetch_lasts(bus, subjects, stream=layout.STREAM):
            info = layout.decode_info(entry.data)
            found[info.name] = Stored(info, entry)
    return found


def batched(names: Iterable[str]) -> Iterator[list[str]]:
    """As many as are asked for in one go."""
    each = iter(names)
    while some := list(islice(each, _AT_ONCE)):
        yield some


async def chunks(bus: Bus, sha256: str) -> AsyncIterator[bytes]:
    """The content, chunk by chunk. Raises `BlobMissing`, `Unavailable`; `BlobDamaged` instead of the last chunk."""
    stored = (await find(bus, [sha256])).get(sha256)
    if stored is None:
        raise BlobMissing(f"no blob {sha256} is stored")
    info, hashed, size, held = stored.info, hashlib.sha256(), 0, b""
    async for entry in messages(bus, info):
        if held:
            yield held
        held = entry.data
        hashed.update(held)
        size += len(held)
    if hashed.hexdigest() != sha256:
        raise BlobDamaged(f"blob {sha256} has {size} bytes of {info.size}, and they hash to {hashed.hexdigest()}")
    if held:
        yield held


async def messages(bus: Bus, info: ObjectInfo) -> AsyncIterator[Entry]:
    """The chunks as they are stored. Nothing is checked. Raises `Unavailable`."""
    start, left = 1, info.chunks
    while left > 0:
        found = await page.fetch(bus, layout.chunks_subject(info.nuid), start, limit=left, stream=layout.STREAM)
        for entry in found.entries:
            yield entry
        if not found.entries:
            return
        start = found.entries[-1].seq + 1
        left -= len(found.entries)


async def whole(bus: Bus, sha256: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The content in one piece. Raises what `chunks` raises, `Invalid` (larger than `max_bytes`)."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks(bus, sha256):
        size += len(chunk)
        if size > max_bytes:
            raise Invalid(f"blob {sha256} is larger than {max_bytes} bytes")
        parts.append(chunk)
    return b"".join(parts)


async def many(bus: Bus, names: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
    """The contents of those that have one chunk at most, in few requests.

    What is missing, damaged or larger is left out: `chunks` of that one gives it, or says why not.
    Raises `Unavailable`, `Invalid` (not a name).
    """
    for at in range(0, len(names), _AT_ONCE):
        found = await find(bus, names[at : at + _AT_ONCE])
        small = [stored.info for stored in found.values() if stored.info.chunks <= 1]
        for group in _grouped(small):
            contents = await _last_chunks(bus, group)
            for info in group:
                data = contents.get(info.nuid, b"")
                if hashlib.sha256(data).hexdigest() == info.name:
                    yield info.name, data


def _grouped(infos: Iterable[ObjectInfo]) -> Iterator[list[ObjectInfo]]:
    group: list[ObjectInfo] = []
    size = 0
    for info in infos:
        if group and size + info.size > _BYTES_AT_ONCE:
            yield group
            group, size = [], 0
        group.append(info)
        size += info.size
    if group:
        yield group


async def _last_chunks(bus: Bus, infos: Iterable[ObjectInfo]) -> dict[str, bytes]:
    wanted = [layout.chunks_subject(info.nuid) for info in infos if info.chunks]
    entries = await page.fetch_lasts(bus, wanted, stream=layout.STREAM) if wanted else []
    return {layout.nuid_of(entry.subject): entry.data for entry in entries}
