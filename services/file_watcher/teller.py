"""Tells the log how a workspace differs from what the log has, and keeps what the log has."""

import errno
import time
from collections.abc import Collection
from itertools import islice

from contracts.changes import Difference, compare, told
from contracts.errors import ClocheError, Conflict, Failure, SandboxCopyFailed, SandboxPathDenied
from contracts.events.file import Action, EntryKind, FileError, FileManifest, FileOverflow, FileReady
from contracts.manifest import Entry, Header, blobs_of, header_of
from contracts.spelling import spell
from infra.blobs.errors import StoreFull
from infra.manifest.stored import StoredManifest, store_manifest
from infra.watching.threads import in_thread
from infra.watching.unified import unified
from services.file_watcher import decide
from services.file_watcher.complaints import Complaints, Trouble
from services.file_watcher.footing import Footing
from services.file_watcher.record import Record
from services.file_watcher.taken import Taken
from services.file_watcher.told import Told
from services.file_watcher.tools import Tools

DIFFS_AT_ONCE = 50
DIFFS_S = 0.5
"""For all diffs of one look: whoever changes a thousand files at once is not waiting for a diff."""
FULL_PAUSE_S = 60.0
"""Before a manifest is tried again that the store had no room for."""


class Teller:
    def __init__(self, record: Record, tools: Tools, workspace: str, tree: Told) -> None:
        self.record = record
        self.told = tree
        self._blobs = tools.blobs
        self._files = tools.files
        self._texts = tools.texts
        self._workspace = workspace
        self._changes = 0
        self._owes_manifest = False
        self._no_manifest_before = 0.0
        self._footing = Footing(tools.bus, tools.files.manifest_s)
        self._complaints = Complaints()

    async def tell(self, taken: Taken, scope: set[bytes], noticed: dict[bytes, bytes]) -> int:
        """What turns the told part of `scope` into what was taken; answers how many bytes. Raises `Conflict`."""
        size = 0
        differences = await in_thread(self._differences, taken, scope, noticed)
        for telling in await in_thread(self._tellings, differences, await self._diffs(differences)):
            await self.record.append(telling.fact)
            for difference in telling.differences:
                self._apply(difference)
            self._changes += len(telling.differences)
            size += telling.size
        await in_thread(self._saw, taken)
        if decide.is_manifest_due(self._changes, len(self.told.tree)):
            await self._manifest_if_there_is_room()
        return size

    def _differences(self, taken: Taken, scope: set[bytes], noticed: dict[bytes, bytes]) -> list[Difference]:
        old = {path: self.told.tree[path] for path in scope if path not in taken.vanished}
        return compare(old, taken.entries, decide.moves(self.told, taken.seen, noticed))

    def _tellings(self, differences: list[Difference], diffs: dict[bytes, str | None]) -> list[decide.Telling]:
        return decide.tellings((each, told(each, self._workspace, diffs.get(each.path))) for each in differences)

    def _saw(self, taken: Taken) -> None:
        for path, seen in taken.seen.items():
            self.told.saw(path, seen, sure=path in taken.sure, firm=path in taken.firm)

    def _apply(self, difference: Difference) -> None:
        if difference.moved_from is not None:
            self.told.drop(difference.moved_from)
        if difference.entry is None:
            self.told.drop(difference.path)
        else:
            self.told.put(difference.path, difference.entry)

    def take_over(self, taken: Taken) -> None:
        """As what there was before the first event."""
        for path, entry in taken.entries.items():
            self.told.put(path, entry)
            self.told.saw(path, taken.seen[path], sure=path in taken.sure, firm=path in taken.firm)

    def due(self) -> float:
        """When to `refresh` even if nothing changes, by the monotonic clock."""
        return self._no_manifest_before if self._owes_manifest else self._footing.due()

    async def refresh(self) -> None:
        """A new manifest where the newest is old, or the log is about to forget it, or none could be stored before.

        Raises `Conflict`, `Unavailable`.
        """
        if self._owes_manifest or await self._footing.is_worn(changed=self._changes > 0):
            await self._manifest_if_there_is_room()

    async def owe_manifest(self) -> None:
        """One has to be told: there are things that no event says. Raises as `refresh`."""
        self._owes_manifest = True
        await self._manifest_if_there_is_room()

    async def _manifest_if_there_is_room(self) -> None:
        if time.monotonic() < self._no_manifest_before:
            return
        try:
            await self.manifest()
        except StoreFull as error:
            await self._could_not_store(error)

    async def _could_not_store(self, error: StoreFull) -> None:
        self._owes_manifest = True
        self._no_manifest_before = time.monotonic() + FULL_PAUSE_S
        await self.complain(b"", error)

    async def manifest(self) -> StoredManifest:
        """Raises `Conflict`, also where contents are gone that the tree names; `StoreFull`, `Unavailable`."""
        if await self._footing.is_forgotten():
            await self._hold_contents()
        stored = await store_manifest(self._blobs, self.told.tree, self._workspace)
        await self.record.append(FileManifest(manifest=stored.sha256, files=stored.files, bytes=stored.bytes))
        self._stand()
        return stored

    async def ready(self) -> None:
        """Raises `Conflict`, `Unavailable`."""
        try:
            stored = await store_manifest(self._blobs, self.told.tree, self._workspace)
        except StoreFull as error:
            await self.record.append(FileReady(files=len(self.told.tree)))
            await self._could_not_store(error)
            return
        await self.record.append(FileReady(files=stored.files, manifest=stored.sha256))
        self._stand()

    def _stand(self) -> None:
        self._changes = 0
        self._owes_manifest = False
        self._footing.stands_at(self.record.last)

    async def _hold_contents(self) -> None:
        """Before they are named again: nothing does at present, so a sweep may be at them. Raises as `manifest`."""
        if gone := await self._blobs.renew(await in_thread(blobs_of, self.told.tree)):
            raise Conflict(f"{len(gone)} contents are not stored any more")

    async def overflow(self, reason: str) -> None:
        """Raises `Conflict`."""
        await self.record.append(FileOverflow(reason=reason))

    async def complain(self, path: bytes, error: Trouble) -> None:
        """Where it is news. Raises `Conflict`."""
        if self._complaints.is_news(path, error):
            name = spell(self._mounted(path))
            await self.record.append(FileError(path=name.text, path_bytes=name.encoded, failure=_failure(error)))

    def are_well(self, paths: Collection[bytes], but: Collection[Trouble] = ()) -> None:
        """Other troubles with these are over: the next is news again."""
        self._complaints.are_well(paths, but)

    def header(self) -> Header:
        """Of the tree as it is told."""
        return header_of(self.told.tree, self._workspace)

    def _mounted(self, path: bytes) -> bytes:
        root = self._workspace.encode().rstrip(b"/")
        return root + b"/" + path if path else root

    async def _diffs(self, differences: list[Difference]) -> dict[bytes, str | None]:
        """By path; of the first ones only."""
        deadline = time.monotonic() + DIFFS_S
        diffs: dict[bytes, str | None] = {}
        for each in await in_thread(_modified, differences):
            if time.monotonic() > deadline:
                break
            diffs[each.path] = await self._diff(self.told.tree.get(each.path), each.entry)
        return diffs

    async def _diff(self, old: Entry | None, new: Entry | None) -> str | None:
        if old is None or new is None or old.sha256 == new.sha256:
            return None
        before, after = await self._text(old), await self._text(new)
        if before is None or after is None:
            return None
        path = spell(self._mounted(new.raw_path)).text
        diff = await in_thread(unified, before, after, path)
        return diff if diff is not None and len(diff.encode()) <= self._files.max_diff_bytes else None

    async def _text(self, entry: Entry) -> str | None:
        small = entry.kind == EntryKind.FILE and entry.size <= self._files.max_diff_bytes
        if not small or entry.sha256 is None or entry.blob is None:
            return None
        data = self._texts.get(entry.sha256)
        if data is None:
            try:
                data = await self._blobs.get(entry.blob)
            except ClocheError:
                return None
        return decide.text_of(data)


def _modified(differences: list[Difference]) -> list[Difference]:
    return list(islice((each for each in differences if each.action == Action.MODIFIED), DIFFS_AT_ONCE))


def _failure(error: Trouble) -> Failure:
    if isinstance(error, ClocheError):
        return error.failure()
    reason = error.strerror or str(error)
    denied = error.errno in (errno.EACCES, errno.EPERM)
    return (SandboxPathDenied(reason) if denied else SandboxCopyFailed(reason)).failure()
