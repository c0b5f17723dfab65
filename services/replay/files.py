"""The files of a sandbox at a sequence: listed from the log, read from the blobs."""

import asyncio
import base64
import weakref
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from contracts import codec, subjects
from contracts.changes import relative
from contracts.errors import Invalid, SandboxFileNotFound
from contracts.events.file import EntryKind
from contracts.history import FileAt, FilesAt, ListFilesAt, ReadFileAt
from contracts.manifest import Entry, Tree
from contracts.payload import pack
from contracts.spelling import parts, spell, unspell
from infra.blobs.pieces import Pieces
from infra.bus.connection import Bus
from infra.log.choosing import view_of
from infra.log.lacking import lacking_of
from infra.log.view import LogView
from infra.manifest.history import tree_at
from services.replay.handlers import Answers
from services.replay.projection import PAGE_BYTES

REMEMBERED_TREES = 8
REMEMBERED_ENTRIES = 500_000
BUILT_AT_ONCE = 4
"""A large tree keeps few others waiting, and few are in memory at a time."""


class _Key(NamedTuple):
    sandbox: str
    sequence: int
    stored_at: str
    """By which the event with that sequence is known again."""


class _Listed(NamedTuple):
    workspace: str
    tree: Tree
    paths: list[bytes]
    """Sorted."""


class FilesInTime:
    """Remembers the trees that were asked for last: they are asked for page by page."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._pieces = Pieces(bus)
        self._trees: OrderedDict[_Key, _Listed] = OrderedDict()
        self._building: weakref.WeakValueDictionary[_Key, asyncio.Lock] = weakref.WeakValueDictionary()
        self._places = asyncio.Semaphore(BUILT_AT_ONCE)

    def answers(self) -> Answers:
        return {"files": self.list, "file": self.read}

    async def list(self, query: ListFilesAt) -> FilesAt:
        """Raises `SandboxFileNotFound`, `Invalid`, `Unavailable`, and what the manifest's blob raises."""
        view = await view_of(self._bus, query.sandbox)
        sequence = await _sequence(view, query.at)
        listed = await self._listed(view, query.sandbox, sequence)
        path = _path(query.path, query.path_bytes, listed.workspace)
        after = None if query.after is None else _raw_cursor(query.after)
        entries: list[Entry] = []
        size = 0
        following: str | None = None
        for each in _beneath(listed, path, after, recursive=query.recursive):
            entry = listed.tree[each]
            size += len(codec.encode(entry))
            if len(entries) == query.limit or (entries and size > PAGE_BYTES):
                following = _cursor(entries[-1].raw_path)
                break
            entries.append(entry)
        return FilesAt(
            sequence=sequence,
            workspace=listed.workspace,
            entries=tuple(entries),
            next=following,
            lacking=await lacking_of(view, query.sandbox, sequence),
        )

    async def read(self, query: ReadFileAt) -> FileAt:
        """Raises what `list` raises, and what the content's blob raises."""
        view = await view_of(self._bus, query.sandbox)
        sequence = await _sequence(view, query.at)
        listed = await self._listed(view, query.sandbox, sequence)
        entry = _entry(listed, _path(query.path, query.path_bytes, listed.workspace))
        data = await self._pieces.read(_blob(entry), query.offset, query.max_bytes)
        packed = pack(data)
        return FileAt(
            sequence=sequence,
            workspace=listed.workspace,
            entry=entry,
            offset=query.offset,
            data=packed.data,
            encoding=packed.encoding,
            more=query.offset + len(data) < entry.size,
            lacking=await lacking_of(view, query.sandbox, sequence),
        )

    async def _listed(self, view: LogView, sandbox: str, sequence: int) -> _Listed:
        """The same tree for all sequences up to the next event that changes it."""
        changes = await view.lasts([subjects.lifecycle(sandbox), subjects.file_events(sandbox)], up_to=sequence)
        newest = max(changes, key=lambda entry: entry.seq, default=None)
        # A log that lost its end gives a sequence again, to an event of another time.
        key = _Key(sandbox, 0, "") if newest is None else _Key(sandbox, newest.seq, newest.stored_at)
        async with self._building.setdefault(key, asyncio.Lock()):
            if (listed := self._trees.get(key)) is None:
                async with self._places:
                    listed = await self._build(sandbox, key.sequence)
            self._trees[key] = listed
            self._trees.move_to_end(key)
            self._forget_some()
            return listed

    async def _build(self, sandbox: str, sequence: int) -> _Listed:
        view = await view_of(self._bus, sandbox)
        found = await tree_at(view, sandbox, sequence) if sequence else None
        if found is None:
            raise SandboxFileNotFound(f"nothing of the files of {sandbox!r} is on record up to there")
        return _Listed(found.workspace, found.tree, await asyncio.to_thread(sorted, found.tree))

    def _forget_some(self) -> None:
        while len(self._trees) > 1 and (
            len(self._trees) > REMEMBERED_TREES
            or sum(len(listed.paths) for listed in self._trees.values()) > REMEMBERED_ENTRIES
        ):
            self._trees.popitem(last=False)


async def _sequence(view: LogView, at: int | None) -> int:
    last = (await view.bounds()).last
    if at is not None and at > last:
        raise Invalid(f"the log ends at sequence {last}: nothing is known of {at}")
    return last if at is None else at


def _path(text: str, encoded: str | None, workspace: str) -> bytes:
    """Raw and relative; empty for the workspace itself."""
    raw = unspell(text, encoded).rstrip(b"/")
    if raw in (b"", b".", workspace.encode()):
        return b""
    if raw.startswith(b"/"):
        return relative(raw, workspace)
    parts(raw)
    return raw


def _entry(listed: _Listed, path: bytes) -> Entry:
    entry = listed.tree.get(path)
    if entry is None:
        raise SandboxFileNotFound(f"{spell(path).text[:200]!r} was not there")
    return entry


def _blob(entry: Entry) -> str:
    """Raises `Invalid` for what has no content, `SandboxFileNotFound` where it was not kept."""
    if entry.kind != EntryKind.FILE:
        target = f" to {entry.symlink}" if entry.symlink is not None else ""
        raise Invalid(f"{entry.path[:200]!r} was a {entry.kind}{target}, not a file")
    if entry.blob is None:
        raise SandboxFileNotFound(f"the content of {entry.path[:200]!r} was not kept: too large, or not readable")
    return entry.blob


def _beneath(listed: _Listed, path: bytes, after: bytes | None, *, recursive: bool) -> Iterator[bytes]:
    """What is in a directory, or the one entry that is not one. Raises `SandboxFileNotFound`."""
    if path and _entry(listed, path).kind != EntryKind.DIRECTORY:
        yield path
        return
    prefix = path + b"/" if path else b""
    at = bisect_left(listed.paths, prefix) if after is None else bisect_right(listed.paths, after)
    while at < len(listed.paths) and listed.paths[at].startswith(prefix):
        each = listed.paths[at]
        name, slash, _ = each[len(prefix) :].partition(b"/")
        if slash and not recursive:
            # Everything beneath this directory sorts before its name with the byte that follows the slash.
            at = bisect_left(listed.paths, prefix + name + b"0", at)
            continue
        yield each
        at += 1


def _cursor(path: bytes) -> str:
    return base64.urlsafe_b64encode(path).decode()


def _raw_cursor(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text.encode())
    except ValueError:
        raise Invalid("after is not the next of an earlier answer") from None
