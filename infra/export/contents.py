"""The contents that exported events name, each once: more names than memory may hold, so on disk."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from contracts import exports
from contracts.contents import named_by
from contracts.errors import Invalid
from contracts.exports import Piece
from contracts.manifest import read_entry
from infra.blobs.errors import BlobDamaged, BlobMissing
from infra.blobs.layout import is_name
from infra.bus.page import Entry
from infra.log.view import BlobSource
from infra.manifest.marks import Marks
from infra.manifest.stored import manifest_lines

AT_ONCE = 400


class Sieve(Protocol):
    """Which contents are wanted at all."""

    async def wanted(self, names: Sequence[str]) -> list[str]: ...


class Contents:
    def __init__(self, blobs: BlobSource, sieve: Sieve | None = None) -> None:
        self._blobs = blobs
        self._sieve = sieve
        self.written = 0
        self.missing = 0
        """That are named and cannot be had: removed meanwhile, never stored, or damaged."""

    async def __aenter__(self) -> Self:
        self._place = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="cloche-export-")
        self._marks = await Marks(Path(self._place.name) / "names.sqlite").__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._marks.aclose()
        await asyncio.to_thread(self._place.cleanup)

    async def note(self, entry: Entry) -> None:
        """An event that was exported. Raises `Unavailable`."""
        named = named_by(entry.subject, entry.data)
        await self._refer(named.contents)
        if named.manifest is not None and is_name(named.manifest):
            await self._refer([named.manifest])
            if await self._marks.begin_reading(bytes.fromhex(named.manifest)):
                await self._note_manifest(named.manifest)

    async def _note_manifest(self, manifest: str) -> None:
        with contextlib.suppress(BlobMissing, BlobDamaged, Invalid):
            async for lines in manifest_lines(self._blobs, manifest):
                await self._refer(await asyncio.to_thread(_named_in, lines))

    async def _refer(self, names: Sequence[str]) -> None:
        await self._marks.refer([bytes.fromhex(name) for name in names if is_name(name)])

    async def lines(self) -> AsyncIterator[bytes]:
        """Every content that was named, in pieces. Raises `Unavailable`."""
        async for some in self._marks.all_referred(AT_ONCE):
            names = [name.hex() for name in some]
            wanted = names if self._sieve is None else await self._sieve.wanted(names)
            left = set(wanted)
            async for name, data in self._blobs.get_many(wanted):
                left.discard(name)
                for line in pieces(name, data):
                    yield line
                self.written += 1
            for name in sorted(left):
                async for line in self._large(name):
                    yield line

    async def _large(self, name: str) -> AsyncIterator[bytes]:
        """Read once to see that it is whole, and again to be written: a piece that is out cannot be taken back."""
        try:
            async for _ in self._blobs.stream(name):
                pass
        except (BlobMissing, BlobDamaged):
            self.missing += 1
            return
        offset, held = 0, b""
        async for chunk in self._blobs.stream(name):
            for line in _cut(name, held, offset, last=False):
                yield line
            offset, held = offset + len(held), chunk
        for line in _cut(name, held, offset, last=True):
            yield line
        self.written += 1


def pieces(name: str, data: bytes) -> list[bytes]:
    """The lines of one content."""
    return _cut(name, data, 0, last=True)


def _cut(name: str, data: bytes, offset: int, *, last: bool) -> list[bytes]:
    starts = range(0, len(data), exports.PIECE_BYTES) or ([0] if last else [])
    return [
        exports.encode_line(
            Piece(
                blob=name,
                offset=offset + at,
                data_base64=data[at : at + exports.PIECE_BYTES],
                last=last and at + exports.PIECE_BYTES >= len(data),
            )
        )
        for at in starts
    ]


def _named_in(lines: Sequence[bytes]) -> list[str]:
    """By the entries among the lines of a manifest."""
    names: list[str] = []
    for line in lines:
        with contextlib.suppress(Invalid):
            blob = read_entry(line).blob
            names += [blob] if blob is not None else []
    return names
