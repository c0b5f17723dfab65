"""Reads the files that changed and puts their contents into the store: a blob is there before anything names it."""

import asyncio
import errno
import hashlib
import os
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from typing import NamedTuple

from contracts.changes import renamed
from contracts.events.file import EntryKind
from contracts.manifest import Entry
from contracts.sight import Seen
from infra.blobs.blobs import Written
from infra.watching import contents
from infra.watching.contents import Content, Unread
from infra.watching.descent import Descent
from infra.watching.look import seen_of
from services.file_watcher.decide import entry_for
from services.file_watcher.told import Told
from services.file_watcher.tools import Tools

PORTION_BYTES = 8 * 1024 * 1024
PORTION_FILES = 2000
VANISHED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO})
LASTING = frozenset({errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EDQUOT})


def is_momentary(error: OSError) -> bool:
    """It may be over without any change that somebody could notice."""
    return error.errno not in LASTING


class Taken:
    """What is on disk, in the words of the log."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.seen: dict[bytes, Seen] = {}
        self.sure: set[bytes] = set()
        self.unread: dict[bytes, OSError] = {}
        """There, and not ours to read: told without content."""
        self.large: set[bytes] = set()
        """Those whose content was stored in chunks."""
        self.vanished: set[bytes] = set()
        """Not what they were a moment ago: to be looked at again."""

    def miss(self, path: bytes, error: OSError) -> None:
        if error.errno in VANISHED:
            self.vanished.add(path)
        else:
            self.unread[path] = error

    def add(self, path: bytes, entry: Entry, seen: Seen, *, sure: bool) -> None:
        self.entries[path] = entry
        self.seen[path] = seen
        if sure:
            self.sure.add(path)


class _Read(NamedTuple):
    content: Content
    sha256: str


class _Wanted(NamedTuple):
    """Files whose content may be another now."""

    small: list[bytes]
    large: list[bytes]
    links: list[tuple[bytes, bytes]]
    """Further names of a file, each with the one that it is read by."""


class Intake:
    def __init__(self, tools: Tools) -> None:
        self._blobs = tools.blobs
        self._files = tools.files
        self._texts = tools.texts
        self._portions = tools.portions

    async def take(self, root: int, told: Told, found: dict[bytes, Seen], written: Collection[bytes] = ()) -> Taken:
        """Every entry that was found; contents are read where they may have changed, in flat memory.

        Those of `written` are read whatever their times say.
        """
        taken = Taken()
        wanted = await asyncio.to_thread(self._sort_out, told, found, written, taken)
        large = wanted.large
        for portion in _portions(wanted.small, found):
            async with self._portions:
                large += await self._small(root, told, portion, taken)
        for path in large:
            await self._large(root, told, path, taken)
        await asyncio.to_thread(_finish, taken, wanted.links, found)
        return taken

    def _sort_out(self, told: Told, found: dict[bytes, Seen], written: Collection[bytes], taken: Taken) -> _Wanted:
        doubted = _inodes(told, found, written)
        wanted: list[bytes] = []
        for path, seen in found.items():
            if seen.kind != EntryKind.FILE or seen.size > self._files.max_blob_bytes:
                taken.add(path, entry_for(path, seen), seen, sure=False)
            elif seen.inode in doubted:
                wanted.append(path)
            elif told.is_same(path, seen):
                taken.add(path, told.tree[path], seen, sure=True)
            elif (same := told.same_elsewhere(seen)) is not None:
                taken.add(path, renamed(same, path), seen, sure=True)
            else:
                wanted.append(path)
        return _once_per_file(sorted(wanted), found)

    async def _small(self, root: int, told: Told, paths: list[bytes], taken: Taken) -> list[bytes]:
        """Returns those that have grown too large for this."""
        results = await asyncio.to_thread(lambda: list(_read_and_hash(root, paths)))
        read = [each for each in results if isinstance(each, _Read)]
        new = [each for each in read if not _is_stored(told.tree.get(each.content.path), each.sha256)]
        await self._blobs.put_many([each.content.data or b"" for each in new])
        for content, sha256 in read:
            entry = entry_for(content.path, content.seen, sha256=sha256, blob=sha256)
            taken.add(content.path, entry, content.seen, sure=content.sure)
            if content.data is not None and len(content.data) <= self._files.max_diff_bytes:
                self._texts.keep(sha256, content.data)
        for each in results:
            if isinstance(each, Unread):
                taken.miss(each.path, each.error)
        return [each.path for each in results if isinstance(each, Content)]

    async def _large(self, root: int, told: Told, path: bytes, taken: Taken) -> None:
        try:
            descriptor = await asyncio.to_thread(_open, root, path)
        except OSError as error:
            taken.miss(path, error)
            return
        try:
            began_ns = time.time_ns()
            before = os.fstat(descriptor)
            written = await self._store(descriptor, _told_of(told, path, before.st_ino), before.st_size)
            after = os.fstat(descriptor)
        except OSError as error:
            taken.miss(path, error)
            return
        finally:
            os.close(descriptor)
        sure = contents.same(before, after) and contents.is_settled(after, began_ns) and written.size == after.st_size
        seen = seen_of(after)._replace(size=written.size)
        taken.add(path, entry_for(path, seen, sha256=written.sha256, blob=written.sha256), seen, sure=sure)
        taken.large.add(path)

    async def _store(self, descriptor: int, told: Entry | None, size: int) -> Written:
        """What is stored already is only read: after a restart, or a mere touch, that is nearly always so."""
        if told is not None and told.blob is not None and told.size == size:
            written = await _hash(contents.stream(descriptor, self._files.max_blob_bytes))
            if written.sha256 == told.blob:
                return written
        return await self._blobs.put_chunks(contents.stream(descriptor, self._files.max_blob_bytes))


async def _hash(chunks: AsyncIterator[bytes]) -> Written:
    hashed, size = hashlib.sha256(), 0
    async for chunk in chunks:
        await asyncio.to_thread(hashed.update, chunk)
        size += len(chunk)
    return Written(hashed.hexdigest(), size)


def _told_of(told: Told, path: bytes, inode: int) -> Entry | None:
    """There, or of the same file elsewhere: a move changes its times."""
    return told.tree.get(path) or told.tree.get(told.path_of(inode) or b"")


def _inodes(told: Told, found: dict[bytes, Seen], paths: Collection[bytes]) -> set[int]:
    """Of files at these paths, now or when they were told."""
    now = {found[path].inode for path in paths if path in found}
    return now | {inode for path in paths if (inode := told.inode_of(path)) is not None}


def _once_per_file(paths: Iterable[bytes], found: dict[bytes, Seen]) -> _Wanted:
    wanted = _Wanted([], [], [])
    names: dict[int, bytes] = {}
    for path in paths:
        seen = found[path]
        if seen.links > 1 and seen.inode in names:
            wanted.links.append((path, names[seen.inode]))
            continue
        names[seen.inode] = path
        (wanted.small if seen.size <= contents.SMALL_BYTES else wanted.large).append(path)
    return wanted


def _finish(taken: Taken, links: Iterable[tuple[bytes, bytes]], found: dict[bytes, Seen]) -> None:
    for path, read in links:
        if read in taken.unread:
            taken.unread[path] = taken.unread[read]
        elif read not in taken.entries or taken.seen[read].inode != found[path].inode:
            taken.vanished.add(path)
        else:
            taken.add(path, renamed(taken.entries[read], path), taken.seen[read], sure=read in taken.sure)
            if read in taken.large:
                taken.large.add(path)
    for path in taken.unread:
        taken.add(path, entry_for(path, found[path]), found[path], sure=False)


def _read_and_hash(root: int, paths: Iterable[bytes]) -> Iterator[_Read | Content | Unread]:
    for each in contents.read_small(root, paths):
        if isinstance(each, Content) and each.data is not None:
            yield _Read(each, hashlib.sha256(each.data).hexdigest())
        else:
            yield each


def _open(root: int, path: bytes) -> int:
    with Descent(root) as descent:
        return contents.open_file(descent, path)


def _is_stored(told: Entry | None, sha256: str) -> bool:
    return told is not None and told.blob == sha256


def _portions(paths: list[bytes], found: dict[bytes, Seen]) -> Iterator[list[bytes]]:
    portion: list[bytes] = []
    size = 0
    for path in paths:
        if portion and (size + found[path].size > PORTION_BYTES or len(portion) == PORTION_FILES):
            yield portion
            portion, size = [], 0
        portion.append(path)
        size += found[path].size
    if portion:
        yield portion
