"""From what was seen to what is told. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from contracts import codec
from contracts.changes import Difference, alone
from contracts.events.file import EntryKind, FileBatch, FileChange
from contracts.manifest import Entry, micros
from contracts.message import Fact
from contracts.sight import Seen, Sight
from contracts.spelling import spell
from services.file_watcher.told import Told

EVENT_BYTES = 400 * 1024
"""Of the changes in one event: with its envelope it stays below 512 KiB."""
MOVES_FOLLOWED = 16
CHANGES_BEFORE_MANIFEST = 1000


class Telling(NamedTuple):
    """One event, and the differences that it tells."""

    fact: Fact
    differences: tuple[Difference, ...]
    size: int
    """In bytes, about."""


def affected(told: Told, sight: Sight) -> set[bytes]:
    """Everything told that this sight says something about: it is in `sight.found`, or it is gone."""
    scope = {path for path in sight.found if path in told.tree}
    for path in sight.gone:
        scope |= _with_all_beneath(told, path)
    for directory in sight.listed:
        for path in told.directly_in(directory):
            if path not in sight.found and path not in sight.troubles:
                scope |= _with_all_beneath(told, path)
    for path, seen in sight.found.items():
        if seen.kind != EntryKind.DIRECTORY:
            scope.update(told.beneath(path))
    return scope


def _with_all_beneath(told: Told, path: bytes) -> set[bytes]:
    beneath = set(told.beneath(path))
    return beneath | {path} if path in told.tree else beneath


def moves(told: Told, found: Mapping[bytes, Seen], noticed: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Which of what was found was told elsewhere before: same inode, and the kernel said so, or it has content.

    An inode number alone proves nothing for what is empty: the next file gets the number of the last one deleted.
    """
    guesses: dict[bytes, bytes] = {}
    for path, seen in found.items():
        source = told.path_of(seen.inode)
        if source is None or source == path or path in guesses:
            continue
        if seen.size > 0 or _was_noticed(path, source, noticed):
            guesses[path] = source
    return guesses


def _was_noticed(path: bytes, source: bytes, noticed: Mapping[bytes, bytes]) -> bool:
    """By a move of it, or of a directory that it is in, perhaps in several steps."""
    for _ in range(MOVES_FOLLOWED):
        moved = _one_step_back(path, noticed)
        if moved is None:
            return False
        if moved == source:
            return True
        path = moved
    return False


def _one_step_back(path: bytes, noticed: Mapping[bytes, bytes]) -> bytes | None:
    head = path
    while head:
        if head in noticed:
            return noticed[head] + path[len(head) :]
        head = head.rpartition(b"/")[0]
    return None


def entry_for(path: bytes, seen: Seen, *, sha256: str | None = None, blob: str | None = None) -> Entry:
    name, target = spell(path), spell(seen.target or b"")
    return Entry(
        path=name.text,
        path_bytes=name.encoded,
        kind=seen.kind,
        size=seen.size,
        mode=seen.mode,
        mtime_us=None if seen.kind == EntryKind.DIRECTORY else micros(seen.mtime_ns),
        sha256=sha256,
        symlink=None if seen.target is None else target.text,
        symlink_bytes=target.encoded,
        blob=blob,
    )


def tellings(changes: Iterable[tuple[Difference, FileChange]]) -> list[Telling]:
    """One change as its own event, several as batches that fit into a message each."""
    groups: list[list[tuple[Difference, FileChange]]] = []
    sizes: list[int] = []
    room = 0
    for each in changes:
        size = len(codec.encode(each[1])) + 1
        if size > room:
            groups.append([])
            sizes.append(0)
            room = EVENT_BYTES
        groups[-1].append(each)
        sizes[-1] += size
        room -= size
    return [_telling(group, size) for group, size in zip(groups, sizes, strict=True)]


def _telling(group: list[tuple[Difference, FileChange]], size: int) -> Telling:
    differences = tuple(difference for difference, _ in group)
    if len(group) == 1:
        return Telling(alone(group[0][1]), differences, size)
    return Telling(FileBatch(changes=tuple(change for _, change in group)), differences, size)


def is_manifest_due(changes: int, entries: int) -> bool:
    """Often enough that nobody has to read many changes, seldom enough that manifests cost less than those."""
    return changes > max(CHANGES_BEFORE_MANIFEST, entries)


def text_of(data: bytes) -> str | None:
    """None for what is not text."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
