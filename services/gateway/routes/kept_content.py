"""The content of a file as the log has it, at any sequence."""

import re
from collections.abc import AsyncIterator

from contracts.history import MAX_CONTENT_BYTES, FileAt, ReadFileAt
from contracts.payload import unpack
from infra.client.spelled_path import spelled
from services.gateway.desk import Desk
from services.gateway.routes.recorded import ask_files

_FIRST = re.compile(r"bytes=(\d{1,15})-")


class KeptContent:
    """Read piece by piece. The first is here already."""

    def __init__(self, desk: Desk, query: ReadFileAt, first: FileAt) -> None:
        self._desk = desk
        self._query = query
        self._first = first
        self.size = first.entry.size
        self.sha256 = first.entry.sha256

    async def cut(self, start: int, end: int) -> AsyncIterator[bytes]:
        """Raises `BlobMissing`, `BlobDamaged`, `Unavailable`."""
        while start < end:
            piece = await self._piece(start)
            data = unpack(piece.data, piece.encoding)[: end - start]
            if not data:
                return
            start += len(data)
            yield data

    async def _piece(self, offset: int) -> FileAt:
        if offset == self._first.offset:
            return self._first
        query = ReadFileAt(
            sandbox=self._query.sandbox,
            path=self._query.path,
            path_bytes=self._query.path_bytes,
            at=self._first.sequence,
            offset=offset,
        )
        piece: FileAt = await ask_files(self._desk, query, FileAt)
        return piece


async def find(
    desk: Desk, sandbox: str, path: bytes, at: int | None, range_: str | None, most: int = MAX_CONTENT_BYTES
) -> KeptContent:
    """`range_` says where reading is likely to begin.

    Raises `SandboxFileNotFound`, also where the content was not kept, `Invalid` for a directory, `Unavailable`.
    """
    begins = _FIRST.match(range_ or "")
    name = spelled(path)
    query = ReadFileAt(
        sandbox=sandbox,
        path=name.text,
        path_bytes=name.encoded,
        at=at,
        offset=int(begins[1]) if begins else 0,
        max_bytes=most,
    )
    first: FileAt = await ask_files(desk, query, FileAt)
    return KeptContent(desk, query, first)
