"""Reads the files that changed and puts their contents into the store: a blob is there before anything names it."""

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
from infra.blobs.errors import StoreFull
from infra.watching import contents
from infra.watching.contents import Content, Unread
from infra.watching.descent import Descent
from infra.watching.look import seen_of
from infra.watching.threads import in_thread
from services.file_watcher.budget import Budget
from services.file_watcher.decide import entry_for
from services.file_watcher.taken import Taken
from services.file_watcher.told import Told
from services.file_watcher.tools import Tools

PORTION_BYTES = 8 * 1024 * 1024
PORTION_FILES = 2000


class _Read(NamedTuple):
    content: Content
    sha256: str


class Terms(NamedTuple):
    """Of a look: what is read of the files that were found."""

    written: Collection[bytes] = ()
    """These, whatever their times say."""
    doubt: bool = False
    """Also those that somebody could have changed by a mapping since they were read."""
    budget: Budget | None = None
    """No more than this has left; absent = all."""


EVERYTHING = Terms()


class _Kept(NamedTuple):
    sha256: str
    size: int
    is_stored: bool


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

    async def take(self, root: int, told: Told, found: dict[bytes, Seen], terms: Terms = EVERYTHING) -> Taken:
        """Every entry that was found; contents are read where they may have changed, in flat memory.

        What the store has no room for is told without its content.
        """
        taken = Taken()
        wanted = await in_thread(self._sort_out, told, found, terms, taken)
        large = wanted.large
        for portion in _portions(wanted.small, found):
            async with self._portions:
                large += await self._small(root, told, portion, taken)
        for path in large:
            await self._large(root, told, path, taken)
        await in_thread(_finish, taken, wanted.links, found)
        return taken

    def _sort_out(self, told: Told, found: dict[bytes, Seen], terms: Terms, taken: Taken) -> _Wanted:
        doubted = _inodes(told, found, terms.written)
        wanted: list[bytes] = []
        doubtful: list[bytes] = []
        for path, seen in found.items():
            if seen.kind != EntryKind.FILE or seen.size > self._files.max_blob_bytes:
                taken.add(path, entry_for(path, seen), seen, sure=False)
            elif seen.inode in doubted:
                wanted.append(path)
            elif (same := told.same(path, seen, firmly=terms.doubt)) is not None:
                entry = told.tree[same]
                entry = entry if same == path else renamed(entry, path)
                taken.add(path, entry, seen, sure=True, firm=told.is_firm(same))
            elif terms.doubt and told.same(path, seen) is not None:
                doubtful.append(path)
            else:
                wanted.append(path)
        affordable = wanted if terms.budget is None else _affordable(wanted, found, terms.budget, taken)
        return _once_per_file(sorted([*affordable, *doubtful]), found)

    async def _small(self, root: int, told: Told, paths: list[bytes], taken: Taken) -> list[bytes]:
        """Returns those that have grown too large for this."""
        results = await in_thread(lambda: list(_read_and_hash(root, paths)))
        read = [each for each in results if isinstance(each, _Read)]
        new = [each for each in read if not _is_stored(told.tree.get(each.content.path), each.sha256)]
        is_kept = await self._keep({each.sha256: each.content.data or b"" for each in new}, taken)
        unkept = set() if is_kept else {each.content.path for each in new}
        for content, sha256 in read:
            blob = None if content.path in unkept else sha256
            entry = entry_for(content.path, content.seen, sha256=sha256, blob=blob)
            taken.add(content.path, entry, content.seen, sure=content.sure and blob is not None, firm=content.firm)
            if content.data is not None and len(content.data) <= self._files.max_diff_bytes:
                self._texts.keep(sha256, content.data)
        for each in results:
            if isinstance(each, Unread):
                taken.miss(each.path, each.error)
        return [each.path for each in results if isinstance(each, Content)]

    async def _keep(self, contents: dict[str, bytes], taken: Taken) -> bool:
        if taken.full is not None:
            return False
        try:
            await self._blobs.put_named(contents)
        except StoreFull as error:
            taken.full = error
            return False
        taken.kept_bytes += sum(map(len, contents.values()))
        return True

    async def _large(self, root: int, told: Told, path: bytes, taken: Taken) -> None:
        try:
            descriptor = await in_thread(_open, root, path)
        except OSError as error:
            taken.miss(path, error)
            return
        try:
            began_ns = time.time_ns()
            before = os.fstat(descriptor)
            kept = await self._store(descriptor, _told_of(told, path, before.st_ino), before.st_size, taken)
            after = os.fstat(descriptor)
        except OSError as error:
            taken.miss(path, error)
            return
        finally:
            os.close(descriptor)
        same = contents.same(before, after) and kept.size == after.st_size and kept.is_stored
        sure = same and contents.is_settled(after, began_ns)
        firm = sure and contents.is_settled(after, began_ns, contents.WRITTEN_OUT_NS)
        seen = seen_of(after)._replace(size=kept.size)
        entry = entry_for(path, seen, sha256=kept.sha256, blob=kept.sha256 if kept.is_stored else None)
        taken.add(path, entry, seen, sure=sure, firm=firm)
        taken.large.add(path)

    async def _store(self, descriptor: int, told: Entry | None, size: int, taken: Taken) -> _Kept:
        """What is stored already is only read: after a restart, or a mere touch, that is nearly always so."""
        if taken.full is not None or (told is not None and told.blob is not None and told.size == size):
            read = await _hash(contents.stream(descriptor, self._files.max_blob_bytes))
            is_stored = told is not None and told.blob == read.sha256
            if is_stored or taken.full is not None:
                return _Kept(*read, is_stored)
        try:
            written = await self._blobs.put_chunks(contents.stream(descriptor, self._files.max_blob_bytes))
        except StoreFull as error:
            taken.full = error
            return await self._store(descriptor, told, size, taken)
        taken.kept_bytes += written.size
        return _Kept(*written, is_stored=True)


async def _hash(chunks: AsyncIterator[bytes]) -> Written:
    hashed, size = hashlib.sha256(), 0
    async for chunk in chunks:
        await in_thread(hashed.update, chunk)
        size += len(chunk)
    return Written(hashed.hexdigest(), size)


def _told_of(told: Told, path: bytes, inode: int) -> Entry | None:
    """There, or of the same file elsewhere: a move changes its times."""
    return told.tree.get(path) or told.tree.get(told.path_of(inode) or b"")


def _inodes(told: Told, found: dict[bytes, Seen], paths: Collection[bytes]) -> set[int]:
    """Of files at these paths, now or when they were told."""
    now = {found[path].inode for path in paths if path in found}
    return now | {inode for path in paths if (inode := told.inode_of(path)) is not None}


def _affordable(paths: list[bytes], found: dict[bytes, Seen], budget: Budget, taken: Taken) -> list[bytes]:
    """Small ones first: work is made of these. Another name of a file costs nothing."""
    left, paid = budget.left(), set[int]()
    affordable: list[bytes] = []
    for path in sorted(paths, key=lambda path: found[path].size):
        seen = found[path]
        need = 0 if seen.inode in paid else budget.need(seen.size)
        if need <= left:
            left -= need
            paid.add(seen.inode)
            affordable.append(path)
        else:
            taken.waits[path] = seen.size
    return affordable


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
            entry, seen = renamed(taken.entries[read], path), taken.seen[read]
            taken.add(path, entry, seen, sure=read in taken.sure, firm=read in taken.firm)
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
