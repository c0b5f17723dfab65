"""The files of a sandbox in the past, as a program outside sees them. Also of one that is gone."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from contracts import subjects
from contracts.changes import Difference, compare
from contracts.errors import Invalid, SandboxFileNotFound
from contracts.events.file import EntryKind
from contracts.history import FilesAt, ListFilesAt
from contracts.lacking import Lack
from contracts.manifest import Entry, Tree
from contracts.spelling import Spelled, spell
from infra.blobs.blobs import Blobs
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.log.choosing import view_of
from infra.log.lacking import warn_of

LIST_TIMEOUT_S = 60.0
"""The first page of a large tree takes as long as reading its manifest."""


class Past(NamedTuple):
    sequence: int
    """The tree is the one after this event."""
    workspace: str
    tree: Tree
    lacking: tuple[Lack, ...] = ()
    """What the log has lost up to there: a file may be older than it was then."""


class FileHistory:
    def __init__(self, bus: Bus, sandbox: str, first_sequence: int = 1) -> None:
        self._bus = bus
        self._sandbox = sandbox
        self._first = first_sequence
        self._blobs = Blobs(bus)

    async def tree(self, at: int | None = None, *, path: str | bytes = "", recursive: bool = True) -> Past:
        """What was in a directory of the workspace (or the one entry that `path` was) after the event at `at`.

        Absent = now. Raises `SandboxNotFound`, `SandboxFileNotFound` (no such path, or nothing is on record at that
        sequence), `Invalid` (the log does not reach that far), `Unavailable`.
        """
        name = spell(path) if isinstance(path, bytes) else Spelled(path, None)
        after: str | None = None
        tree: Tree = {}
        while True:
            page: FilesAt = await ask(
                self._bus,
                subjects.state_rpc("files"),
                ListFilesAt(
                    sandbox=self._sandbox,
                    at=at,
                    path=name.text,
                    path_bytes=name.encoded,
                    recursive=recursive,
                    after=after,
                ),
                FilesAt,
                timeout=LIST_TIMEOUT_S,
            )
            tree |= {entry.raw_path: entry for entry in page.entries}
            at, after = page.sequence, page.next
            if after is None:
                warn_of(page.lacking)
                return Past(page.sequence, page.workspace, tree, page.lacking)

    async def entry(self, path: str | bytes, at: int | None = None) -> Entry:
        """One entry. Raises what `tree` raises, `Invalid` for a directory."""
        past = await self.tree(at, path=path, recursive=False)
        raw = path if isinstance(path, bytes) else path.encode()
        inside = raw.removeprefix(past.workspace.encode() + b"/").rstrip(b"/")
        if set(past.tree) != {inside}:
            raise Invalid(f"{spell(raw).text[:200]!r} was a directory")
        return past.tree[inside]

    async def chunks(self, path: str | bytes, at: int | None = None) -> AsyncIterator[bytes]:
        """A file's content, piece by piece. Raises what `entry` and `content` raise."""
        async for chunk in self.content(await self.entry(path, at)):
            yield chunk

    async def read(self, path: str | bytes, at: int | None = None) -> bytes:
        """The same in one piece."""
        return b"".join([chunk async for chunk in self.chunks(path, at)])

    async def content(self, entry: Entry) -> AsyncIterator[bytes]:
        """What an entry held, piece by piece, checked against its hash.

        Raises `Invalid` for what is not a file, `SandboxFileNotFound` where its content was not kept (too large, not
        readable), `BlobMissing`, `BlobDamaged` instead of the last piece, `Unavailable`.
        """
        if entry.kind != EntryKind.FILE:
            raise Invalid(f"{entry.path[:200]!r} was a {entry.kind}, not a file")
        if entry.blob is None:
            raise SandboxFileNotFound(f"the content of {entry.path[:200]!r} was not kept: too large, or not readable")
        async for chunk in self._blobs.stream(entry.blob):
            yield chunk

    async def beginning(self) -> int:
        """The first sequence at which its files are on record. Raises `SandboxFileNotFound`, `Unavailable`."""
        view = await view_of(self._bus, self._sandbox)
        ready = await view.first(subjects.event(self._sandbox, "file.ready"), start=self._first)
        if ready is None:
            raise SandboxFileNotFound(f"nothing of the files of {self._sandbox!r} is on record yet")
        return ready.seq

    async def changes(self, since: int, until: int | None = None) -> list[Difference]:
        """What became different between two sequences, each path once. Raises what `tree` raises."""
        old, new = await self.tree(since), await self.tree(until)
        return compare(old.tree, new.tree)
