"""How a tree of files changes: events applied to it, and two trees compared into what events tell."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from contracts.errors import Invalid
from contracts.events.file import (
    Action,
    FileBatch,
    FileChange,
    FileCreated,
    FileDeleted,
    FileFacts,
    FileModified,
    FileMoved,
)
from contracts.manifest import Entry, Tree
from contracts.message import Fact
from contracts.spelling import parts, spell, unspell


class Difference(NamedTuple):
    action: Action
    path: bytes
    entry: Entry | None
    """As it is now; None for what is gone."""
    moved_from: bytes | None = None


def compare(
    old: Mapping[bytes, Entry], new: Mapping[bytes, Entry], moves: Mapping[bytes, bytes] | None = None
) -> list[Difference]:
    """What turns `old` into `new`, in an order in which it can be applied.

    `moves` are guesses, new path → old path, from whoever can tell that it is the same file (its inode). A guess
    counts where the old path is gone and kind and content are the same.
    """
    moved = {path: source for path, source in (moves or {}).items() if _is_move(old, new, path, source)}
    sources: set[bytes] = set()
    found: list[Difference] = []
    for path in sorted(new):
        source = moved.get(path)
        if source is not None and source not in sources:
            sources.add(source)
            found.append(Difference(Action.MOVED, path, new[path], source))
        elif path not in old:
            found.append(Difference(Action.CREATED, path, new[path]))
        elif old[path] != new[path]:
            found.append(Difference(Action.MODIFIED, path, new[path]))
    gone = [path for path in sorted(old, reverse=True) if path not in new and path not in sources]
    return [*(Difference(Action.DELETED, path, None) for path in gone), *found]


def _is_move(old: Mapping[bytes, Entry], new: Mapping[bytes, Entry], path: bytes, source: bytes) -> bool:
    before, after = old.get(source), new.get(path)
    if before is None or after is None or source in new:
        return False
    return (before.kind, before.sha256, before.target) == (after.kind, after.sha256, after.target)


def told(difference: Difference, workspace: str, diff: str | None = None) -> FileChange:
    """A difference as an event tells it."""
    path = spell(_mounted(difference.path, workspace))
    moved_from = None if difference.moved_from is None else spell(_mounted(difference.moved_from, workspace))
    return FileChange(
        action=difference.action,
        path=path.text,
        path_bytes=path.encoded,
        moved_from=moved_from.text if moved_from else None,
        moved_from_bytes=moved_from.encoded if moved_from else None,
        facts=None if difference.entry is None else facts_of(difference.entry, diff),
    )


def alone(change: FileChange) -> Fact:
    """The event that tells one change by itself. Raises `Invalid` if the change lacks what its action needs."""
    if change.action == Action.DELETED:
        return FileDeleted(path=change.path, path_bytes=change.path_bytes)
    if change.action == Action.MOVED and change.moved_from is not None:
        fields = {name: value for name, value in _fields(change).items() if name != "action"}
        return FileMoved(**fields)
    if change.facts is None or change.action == Action.MOVED:
        raise Invalid(f"{change.action} of {change.path[:200]!r} lacks a part")
    kind = FileCreated if change.action == Action.CREATED else FileModified
    return kind(path=change.path, path_bytes=change.path_bytes, facts=change.facts)


def changes_of(fact: Fact) -> tuple[FileChange, ...]:
    """What an event changes in the tree, in order; nothing for one that is not about single files."""
    match fact:
        case FileBatch():
            return fact.changes
        case FileCreated():
            return (FileChange(action=Action.CREATED, **_fields(fact)),)
        case FileModified():
            return (FileChange(action=Action.MODIFIED, **_fields(fact)),)
        case FileDeleted():
            return (FileChange(action=Action.DELETED, **_fields(fact)),)
        case FileMoved():
            return (FileChange(action=Action.MOVED, **_fields(fact)),)
        case _:
            return ()


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def apply(tree: Tree, fact: Fact, workspace: str) -> None:
    """Change the tree as the event says. Raises `Invalid` for a path that does not lie in the workspace."""
    for change in changes_of(fact):
        apply_change(tree, change, workspace)


def apply_change(tree: Tree, change: FileChange, workspace: str) -> None:
    """Raises what `apply` raises."""
    path = relative(unspell(change.path, change.path_bytes), workspace)
    before = tree.get(path)
    if change.action == Action.DELETED:
        tree.pop(path, None)
        return
    if change.action == Action.MOVED:
        before = tree.pop(relative(unspell(change.moved_from or "", change.moved_from_bytes), workspace), None)
    if change.facts is not None:
        tree[path] = entry_of(path, change.facts)
    elif before is not None:
        tree[path] = renamed(before, path)


def relative(path: bytes, workspace: str) -> bytes:
    """A path as the sandbox sees it, relative to its workspace. Raises `Invalid` if it does not lie in there."""
    root = _mounted(b"", workspace)
    if not path.startswith(root):
        raise Invalid(f"{spell(path).text[:200]!r} does not lie in {workspace}")
    inside = path[len(root) :]
    parts(inside)
    return inside


def _mounted(path: bytes, workspace: str) -> bytes:
    return workspace.encode().rstrip(b"/") + b"/" + path


def entry_of(path: bytes, facts: FileFacts) -> Entry:
    text, encoded = spell(path)
    return Entry(
        path=text,
        path_bytes=encoded,
        kind=facts.kind,
        size=facts.size,
        mode=facts.mode,
        mtime_us=facts.mtime_us,
        sha256=facts.sha256,
        symlink=facts.symlink,
        symlink_bytes=facts.symlink_bytes,
        blob=facts.blob,
    )


def facts_of(entry: Entry, diff: str | None = None) -> FileFacts:
    return FileFacts(
        size=entry.size,
        mode=entry.mode,
        sha256=entry.sha256,
        symlink=entry.symlink,
        blob=entry.blob,
        diff=diff,
        kind=entry.kind,
        mtime_us=entry.mtime_us,
        symlink_bytes=entry.symlink_bytes,
    )


def renamed(entry: Entry, path: bytes) -> Entry:
    text, encoded = spell(path)
    return replace(entry, path=text, path_bytes=encoded)
