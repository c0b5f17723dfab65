"""The files of a sandbox as they were at any sequence of the log."""

from typing import NamedTuple

from contracts import codec, subjects
from contracts.changes import apply
from contracts.events.file import FileManifest, FileReady
from contracts.manifest import Tree
from infra.log.view import LogView
from infra.manifest.stored import load_manifest


class TreeAt(NamedTuple):
    sequence: int
    """Everything up to here is in it."""
    workspace: str
    """Where the sandbox sees the tree."""
    tree: Tree


class Base(NamedTuple):
    """The whole tree at a sequence."""

    sequence: int
    manifest: str


async def tree_at(view: LogView, sandbox: str, sequence: int | None = None) -> TreeAt | None:
    """The tree after the event with this sequence; absent = after all that is stored. None if none is on record.

    Raises `Unavailable`, `Invalid` (a record that cannot be read), `BlobMissing`, `BlobDamaged`.
    """
    end = (await view.bounds()).last if sequence is None else sequence
    base = await base_at(view, sandbox, end)
    if base is None:
        return None
    header, tree = await load_manifest(view.blobs, base.manifest)
    filters = subjects.events_of(sandbox, family="file")
    async for entry in view.read(filters, base.sequence + 1, end=end):
        fact = codec.decode_fact(codec.decode_head(entry.data))
        if fact is not None:
            apply(tree, fact, header.workspace)
    return TreeAt(end, header.workspace, tree)


async def base_at(view: LogView, sandbox: str, end: int) -> Base | None:
    """The newest manifest at or before a sequence, of the life that the sandbox had then. Raises `Unavailable`."""
    born, ready, whole = (subjects.event(sandbox, tag) for tag in ("sandbox.creating", "file.ready", "file.manifest"))
    while end > 0:
        found = await view.lasts([born, ready, whole], up_to=end)
        newest = max(found, key=lambda entry: entry.seq, default=None)
        if newest is None or newest.subject == born:
            return None
        end = newest.seq
        fact = codec.decode_fact(codec.decode_head(newest.data))
        if isinstance(fact, FileReady | FileManifest) and fact.manifest is not None:
            return Base(end, fact.manifest)
        end -= 1
    return None
