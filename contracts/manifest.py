"""A whole tree of files as data, and its stored form: a manifest.

A manifest is lines of JSON: a `Header`, then every `Entry` in the order of the raw paths. The same tree gives the same
bytes, so a tree that did not change is stored once.

The tree at sequence S is the newest manifest that a `file.ready` or `file.manifest` at or before S names, and all
file events after that one, up to and including S: see `contracts/changes.py`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from contracts.codec import decode, encode
from contracts.errors import Invalid
from contracts.events.file import EntryKind
from contracts.spelling import parts, unspell

VERSION = 1
MOST_MICROS = 2**53
"""What any reader of JSON can still tell from its neighbours: the year 2255."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One entry of a tree. Null fields are left out: a manifest may hold a million of these."""

    path: str
    """Relative to the workspace."""
    path_bytes: str | None = None
    kind: EntryKind
    size: int
    mode: int
    mtime_us: int | None = None
    sha256: str | None = None
    symlink: str | None = None
    symlink_bytes: str | None = None
    blob: str | None = None

    @property
    def raw_path(self) -> bytes:
        """Raises `Invalid`."""
        return unspell(self.path, self.path_bytes)

    @property
    def target(self) -> bytes:
        """Of a symlink. Raises `Invalid`."""
        return unspell(self.symlink or "", self.symlink_bytes)


Tree = dict[bytes, Entry]
"""By raw path, relative to the workspace, without a leading slash. The workspace itself is no entry."""


class Header(Struct, frozen=True, kw_only=True):
    """The first line of a manifest."""

    version: int = VERSION
    workspace: str
    """Where the tree is mounted in the sandbox: events name paths from there."""
    entries: int
    bytes: int
    """Of the contents of all files."""


class Manifest(NamedTuple):
    header: Header
    tree: Tree


def micros(nanoseconds: int) -> int:
    """A file's time for `mtime_us`: anybody may set one that no number in JSON could hold."""
    return max(-MOST_MICROS, min(nanoseconds // 1000, MOST_MICROS))


def header_of(tree: Mapping[bytes, Entry], workspace: str) -> Header:
    size = sum(entry.size for entry in tree.values() if entry.kind == EntryKind.FILE)
    return Header(workspace=workspace, entries=len(tree), bytes=size)


def blobs_of(tree: Mapping[bytes, Entry]) -> set[str]:
    """The names of all contents that are kept."""
    return {entry.blob for entry in tree.values() if entry.blob is not None}


def lines(tree: Mapping[bytes, Entry], workspace: str) -> Iterator[bytes]:
    """The stored form, line by line, each with its line break."""
    yield encode(header_of(tree, workspace)) + b"\n"
    for path in sorted(tree):
        yield encode(tree[path]) + b"\n"


def read_header(line: bytes) -> Header:
    """Raises `Invalid`, also for a version from the future."""
    header: Header = decode(line, Header)
    if header.version != VERSION:
        raise Invalid(f"a manifest of version {header.version}; this program reads version {VERSION}")
    return header


def read_entry(line: bytes) -> Entry:
    """Raises `Invalid`, also for a path that does not lie beneath the workspace."""
    entry: Entry = decode(line, Entry)
    parts(entry.raw_path)
    return entry


def read(stored: Iterable[bytes]) -> Manifest:
    """The whole of a manifest from its lines. Raises `Invalid` if it is not one, or is cut short."""
    each = iter(stored)
    header = read_header(next(each, b""))
    tree = {entry.raw_path: entry for entry in map(read_entry, each)}
    if len(tree) != header.entries:
        raise Invalid(f"a manifest of {header.entries} entries has {len(tree)}")
    return Manifest(header, tree)
