"""A tree of files written into a directory as it is on record, and nowhere else."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from contracts.errors import Invalid
from contracts.events.file import EntryKind
from contracts.manifest import Tree
from infra.blobs.errors import BlobDamaged, BlobMissing
from infra.blobs.layout import CHUNK_BYTES, is_name
from infra.log.view import BlobSource
from infra.manifest.planting import Planting, open_root, write_all

BYTES_AT_ONCE = 4 * 1024 * 1024
FILES_AT_ONCE = 400
_NO_PLACE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


class Unrestored(NamedTuple):
    path: bytes
    reason: str


class Restored(NamedTuple):
    entries: int
    bytes: int
    missing: tuple[Unrestored, ...]
    """What was on record and is not there now."""


async def restore(
    tree: Tree, blobs: BlobSource, directory: Path, uid: int | None = None, gid: int | None = None
) -> Restored:
    """Write the tree into an existing, empty directory, in which nobody else writes meanwhile.

    Contents, names, kinds, permission bits and times are as they were; everything belongs to `uid` and `gid` (absent =
    to whoever calls). What is not kept (FIFOs, sockets, devices, files that were too large or could not be read) and
    what cannot be had (a blob that is gone or damaged) is named in the answer. Nothing is written outside of the
    directory, whatever the tree says: no link is followed, and an entry is only made in a directory made before it.

    Raises `Unavailable`, and `OSError` if the directory is not ours or not empty, or the disk is full.
    """
    root = await asyncio.to_thread(open_root, directory)
    try:
        return await _Restoring(tree, blobs, Planting(root, uid, gid)).run()
    finally:
        os.close(root)


class _Restoring:
    def __init__(self, tree: Tree, blobs: BlobSource, planting: Planting) -> None:
        self._tree = tree
        self._blobs = blobs
        self._planting = planting
        self._made: set[bytes] = set()
        self._missing: dict[bytes, str] = {}
        self._bytes = 0

    async def run(self) -> Restored:
        with self._planting:
            await asyncio.to_thread(self._make_directories)
            await self._make_files(self._wanted_blobs())
            await asyncio.to_thread(self._make_symlinks)
            await asyncio.to_thread(self._finish)
        missing = tuple(Unrestored(path, self._missing[path]) for path in sorted(self._missing))
        return Restored(len(self._made), self._bytes, missing)

    def _of_kind(self, kind: EntryKind) -> list[bytes]:
        return sorted(path for path, entry in self._tree.items() if entry.kind == kind)

    def _make(self, path: bytes, make: Callable[[], None]) -> None:
        try:
            make()
        except OSError as error:
            if error.errno not in _NO_PLACE:
                raise
            self._missing[path] = f"there is no place for it: {os.strerror(error.errno)}"
        except (Invalid, ValueError) as error:
            self._missing[path] = str(error)
        else:
            self._made.add(path)

    def _make_directories(self) -> None:
        for path in self._of_kind(EntryKind.DIRECTORY):
            self._make(path, partial(self._planting.make_directory, path))

    def _make_symlinks(self) -> None:
        """Last, so that there is none on the way to anything else."""
        for path in self._of_kind(EntryKind.SYMLINK):
            self._make(path, partial(self._make_symlink, path))
        for path in self._of_kind(EntryKind.OTHER):
            self._missing[path] = "neither a file, a directory nor a link"

    def _make_symlink(self, path: bytes) -> None:
        self._planting.make_symlink(path, self._tree[path].target)

    def _wanted_blobs(self) -> dict[str, list[bytes]]:
        wanted: dict[str, list[bytes]] = {}
        for path in self._of_kind(EntryKind.FILE):
            blob = self._tree[path].blob
            if blob is not None and is_name(blob):
                wanted.setdefault(blob, []).append(path)
            else:
                self._missing[path] = "its content was not kept"
        return wanted

    async def _make_files(self, wanted: dict[str, list[bytes]]) -> None:
        small = [blob for blob, paths in wanted.items() if self._tree[paths[0]].size <= CHUNK_BYTES]
        async for contents in self._contents(small):
            await asyncio.to_thread(self._write_small, contents, wanted)
            for blob in contents:
                del wanted[blob]
        for blob, paths in wanted.items():
            for path in paths:
                await self._make_large(path, blob)

    async def _contents(self, names: list[str]) -> AsyncIterator[dict[str, bytes]]:
        """In portions that may be held in memory. What is not among them has to be asked for by itself."""
        held: dict[str, bytes] = {}
        size = 0
        async for name, data in self._blobs.get_many(names):
            held[name] = data
            size += len(data)
            if size > BYTES_AT_ONCE or len(held) >= FILES_AT_ONCE:
                yield held
                held, size = {}, 0
        if held:
            yield held

    def _write_small(self, contents: dict[str, bytes], wanted: dict[str, list[bytes]]) -> None:
        for path, data in sorted((path, data) for blob, data in contents.items() for path in wanted[blob]):
            self._make(path, partial(self._planting.write, path, data))
            self._bytes += len(data)

    async def _make_large(self, path: bytes, blob: str) -> None:
        opened: list[int] = []
        self._make(path, lambda: opened.append(self._planting.create(path)))
        if not opened:
            return
        try:
            async for chunk in self._blobs.stream(blob):
                await asyncio.to_thread(write_all, opened[0], chunk)
                self._bytes += len(chunk)
        except (BlobMissing, BlobDamaged, Invalid) as error:
            self._missing[path] = error.message
            self._made.discard(path)
            self._planting.remove(path)
        finally:
            os.close(opened[0])

    def _finish(self) -> None:
        """From the deepest up, because a directory may be one that even its owner cannot enter."""
        for path in sorted(self._made, reverse=True):
            self._planting.finish(path, self._tree[path])
