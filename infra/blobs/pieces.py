"""Any piece of a blob, checked, without reading the whole of it each time."""

import hashlib
from collections import OrderedDict
from typing import NamedTuple

from infra.blobs import layout, reading
from infra.blobs.errors import BlobDamaged, BlobMissing
from infra.bus import page
from infra.bus.connection import Bus

REMEMBERED = 100


class _Chunk(NamedTuple):
    seq: int
    sha256: bytes
    size: int


class Pieces:
    """Reads a blob to its end once, and remembers what each chunk has to be; the last `REMEMBERED` blobs."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._tables: OrderedDict[str, list[_Chunk]] = OrderedDict()

    async def read(self, sha256: str, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer only at the end.

        Raises `BlobMissing`, `BlobDamaged`, `Unavailable`, `Invalid` (not a name).
        """
        table = self._tables.get(sha256)
        if table is None:
            table = self._tables[sha256] = await self._survey(sha256)
            if len(self._tables) > REMEMBERED:
                self._tables.popitem(last=False)
        self._tables.move_to_end(sha256)
        try:
            return await self._cut(table, offset, size)
        except BlobDamaged:
            # It may have been removed and stored anew meanwhile, which the next survey sees.
            self._tables.pop(sha256, None)
            raise

    async def _cut(self, table: list[_Chunk], offset: int, size: int) -> bytes:
        found, start = b"", 0
        for chunk in table:
            if start < offset + size and start + chunk.size > offset:
                data = await self._chunk(chunk)
                found += data[max(0, offset - start) : offset + size - start]
            start += chunk.size
        return found

    async def _chunk(self, chunk: _Chunk) -> bytes:
        entry = await page.fetch_one(self._bus, chunk.seq, stream=layout.STREAM)
        if entry is None or hashlib.sha256(entry.data).digest() != chunk.sha256:
            raise BlobDamaged(f"chunk {chunk.seq} of a blob is not what it was")
        return entry.data

    async def _survey(self, sha256: str) -> list[_Chunk]:
        stored = (await reading.find(self._bus, [sha256])).get(sha256)
        if stored is None:
            raise BlobMissing(f"no blob {sha256} is stored")
        whole, table = hashlib.sha256(), list[_Chunk]()
        async for entry in reading.messages(self._bus, stored.info):
            whole.update(entry.data)
            table.append(_Chunk(entry.seq, hashlib.sha256(entry.data).digest(), len(entry.data)))
        if whole.hexdigest() != sha256:
            raise BlobDamaged(f"blob {sha256} hashes to {whole.hexdigest()}")
        return table
