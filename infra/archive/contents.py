"""Contents out of an import into the blobs: each is stored only if it is what its name says."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

from contracts.errors import Invalid
from contracts.exports import Piece
from infra.blobs.batch import MAX_BYTES
from infra.blobs.blobs import Blobs
from infra.blobs.layout import CHUNK_BYTES

AT_ONCE = 400
WAITING_PIECES = 4


class _Large:
    """A content that is stored while it comes. It exists once all of it came and was right."""

    def __init__(self, blobs: Blobs, name: str) -> None:
        self._name = name
        self._hash = hashlib.sha256()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_PIECES)
        self._task = asyncio.create_task(blobs.put_chunks(self._chunks()))

    async def add(self, data: bytes) -> None:
        """Raises what `Blobs.put_chunks` raises."""
        await self._hand_over(data)

    async def finish(self) -> None:
        """Raises what `Blobs.put_chunks` raises, `Invalid` (it is not what its name says)."""
        await self._hand_over(None)
        await self._task

    async def _hand_over(self, data: bytes | None) -> None:
        handing = asyncio.ensure_future(self._pieces.put(data))
        await asyncio.wait([handing, self._task], return_when=asyncio.FIRST_COMPLETED)
        if not handing.done():
            handing.cancel()
            await self._task

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while (data := await self._pieces.get()) is not None:
            await asyncio.to_thread(self._hash.update, data)
            yield data
        if self._hash.hexdigest() != self._name:
            raise Invalid(f"content {self._name} hashes to {self._hash.hexdigest()}: the file is damaged")


class ContentsIn:
    """Pieces in the order of the file. Small contents are gathered, large ones pass through."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._name: str | None = None
        self._data = bytearray()
        self._offset = 0
        self._large: _Large | None = None
        self._whole: dict[str, bytes] = {}
        self._held = 0
        self.count = 0

    async def add(self, piece: Piece) -> None:
        """Raises `Invalid` for a piece that does not follow, or a content that is not what its name says, `StoreFull`,
        `Unavailable`."""
        if self._name is None:
            self._name, self._offset = piece.blob, 0
        if piece.blob != self._name or piece.offset != self._offset:
            raise Invalid(f"a piece of content {piece.blob} at {piece.offset} does not follow: the file is damaged")
        self._offset += len(piece.data_base64)
        await self._take(piece)
        if piece.last:
            await self._end(self._name)
            self._name = None
            self.count += 1

    async def _take(self, piece: Piece) -> None:
        self._data += piece.data_base64
        if len(self._data) > CHUNK_BYTES:
            self._large = self._large or _Large(self._blobs, piece.blob)
            data, self._data = bytes(self._data), bytearray()
            await self._large.add(data)

    async def _end(self, name: str) -> None:
        data, self._data = bytes(self._data), bytearray()
        if self._large is not None:
            await self._large.add(data)
            await self._large.finish()
            self._large = None
            return
        if hashlib.sha256(data).hexdigest() != name:
            raise Invalid(f"content {name} is not what its name says: the file is damaged")
        self._whole[name] = data
        self._held += len(data)
        if self._held > MAX_BYTES or len(self._whole) >= AT_ONCE:
            await self.flush()

    async def flush(self) -> None:
        """What is whole is stored when this returns. Raises `StoreFull`, `Denied`."""
        whole, self._whole, self._held = self._whole, {}, 0
        if whole:
            await self._blobs.put_named(whole)

    @property
    def is_whole(self) -> bool:
        """No content is half here."""
        return self._name is None

    async def aclose(self) -> None:
        if self._large is not None:
            await self._large.aclose()
