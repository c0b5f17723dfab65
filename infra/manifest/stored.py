"""Manifests in and out of the blobs, in flat memory beside the tree itself."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from contracts.errors import Invalid
from contracts.manifest import Entry, Header, Manifest, Tree, header_of, lines, read_entry, read_header
from infra.blobs.blobs import Blobs
from infra.log.view import BlobSource

_LINES_AT_ONCE = 2000
MOST_LINE_BYTES = 1024 * 1024


class StoredManifest(NamedTuple):
    sha256: str
    files: int
    """Entries of every kind."""
    bytes: int


async def store_manifest(blobs: Blobs, tree: Mapping[bytes, Entry], workspace: str) -> StoredManifest:
    """Stored when this returns; a tree that was stored before is not stored again. Nobody may change it meanwhile.

    Raises what `Blobs.put_chunks` raises.
    """
    header = await asyncio.to_thread(header_of, tree, workspace)
    if len(tree) < _LINES_AT_ONCE:
        sha256 = await blobs.put(await asyncio.to_thread(b"".join, lines(tree, workspace)))
    else:
        sha256 = (await blobs.put_chunks(_joined(lines(tree, workspace)))).sha256
    return StoredManifest(sha256, header.entries, header.bytes)


async def _joined(all_lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    while some := await asyncio.to_thread(_some, all_lines):
        yield some


def _some(all_lines: Iterator[bytes]) -> bytes:
    return b"".join(islice(all_lines, _LINES_AT_ONCE))


async def load_manifest(blobs: BlobSource, sha256: str) -> Manifest:
    """Raises `BlobMissing`, `BlobDamaged`, `Unavailable`, `Invalid` (not a manifest)."""
    header: Header | None = None
    tree: Tree = {}
    async for some in manifest_lines(blobs, sha256):
        if header is None:
            header, some = read_header(some[0]), some[1:]
        tree.update(await asyncio.to_thread(_entries, some))
    if header is None or len(tree) != header.entries:
        raise Invalid(f"blob {sha256} is not a whole manifest")
    return Manifest(header, tree)


async def manifest_lines(blobs: BlobSource, sha256: str) -> AsyncIterator[list[bytes]]:
    """Whole lines, a portion at a time. Raises what `Blobs.stream` raises, `Invalid` (not lines at all)."""
    rest = b""
    async for chunk in blobs.stream(sha256):
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > MOST_LINE_BYTES:
            raise Invalid(f"blob {sha256} is not a manifest: a line of it has more than {MOST_LINE_BYTES} bytes")
        if whole:
            yield whole
    if rest:
        yield [rest]


def _entries(some: Iterable[bytes]) -> Tree:
    return {entry.raw_path: entry for entry in map(read_entry, some)}
