"""Removes blobs that nothing refers to any more: because the log has forgotten, or a writer died half way.

Mark and sweep. Whatever looks like the name of a blob in any event is a reference, and so is every name in a manifest
that an event names; if anything of that cannot be read, nothing is removed. The same holds for imported sessions,
except that what cannot be read there names nothing. What was stored or renewed within the grace is never removed, so a
blob that is stored now, and referred to in a moment, is safe.
"""

import asyncio
import contextlib
import datetime
import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import NamedTuple

from contracts import codec, subjects
from contracts.errors import ClocheError, Invalid
from contracts.events.file import FileManifest, FileReady
from contracts.events.sandbox import SandboxSnapshotted
from contracts.streams import ARCHIVE_STREAM
from infra import clock
from infra.blobs import layout
from infra.blobs.blobs import GRACE_S, Blobs
from infra.blobs.errors import BlobDamaged, BlobMissing
from infra.blobs.layout import ObjectInfo
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.bus.errors import ApiError
from infra.bus.page import Entry
from infra.manifest.marks import Marks
from infra.manifest.stored import manifest_lines

logger = logging.getLogger(__name__)

EVERY_S = 6 * 3600.0
AT_ONCE = 32
_NAME = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_NAMES_MANIFEST = (".file.ready", ".file.manifest", ".sandbox.snapshotted")
"""How the subjects of events end that name a manifest."""


class Swept(NamedTuple):
    kept: int
    removed: int
    """Blobs that nothing referred to."""
    bytes: int
    """Of their contents."""
    leftovers: int
    """Unfinished uploads that were removed."""


async def collect_garbage(bus: Bus, scratch: Path, *, grace_s: float = GRACE_S) -> Swept:
    """As the file watcher, the only user who may. `scratch` is an existing directory for some megabytes.

    May be stopped at any point and begun again. Raises `LogGap` and `BlobMissing`, `BlobDamaged`, `Invalid` for a
    manifest (then nothing was removed), `Unavailable`, `Denied`, and `OSError`, `sqlite3.Error` for `scratch`.
    """
    old = clock.now() - datetime.timedelta(seconds=grace_s)
    async with Marks(scratch / "garbage.sqlite") as marks:
        await _mark(bus, marks)
        return await _Sweep(bus, marks, old).run()


async def keep_swept(bus: Bus, scratch: Path, *, every_s: float = EVERY_S) -> None:
    """For ever. Several nodes may do so at once: what one has removed, the others do not find."""
    while True:
        await asyncio.sleep(every_s)
        try:
            swept = await collect_garbage(bus, scratch)
        except (ClocheError, OSError, sqlite3.Error) as error:
            logger.warning("garbage is collected later: %s", error)
        else:
            logger.info("%d blobs removed (%d bytes), %d kept", swept.removed, swept.bytes, swept.kept)


async def _mark(bus: Bus, marks: Marks) -> None:
    blobs = Blobs(bus)
    async for entry in reader.read(bus, [subjects.LOG], (await reader.bounds(bus)).first, follow=False):
        await marks.refer(_names([entry.data]))
        if entry.subject.endswith(_NAMES_MANIFEST):
            await _mark_manifest(blobs, marks, entry)
    await _mark_archive(bus, blobs, marks)


async def _mark_archive(bus: Bus, blobs: Blobs, marks: Marks) -> None:
    """What other logs name that were imported, or are being. Anybody may have written those, and contents may lack."""
    start = 1
    while True:
        found = await reader.patiently(bus, lambda bus: page.fetch(bus, subjects.ARCHIVE, start, stream=ARCHIVE_STREAM))  # noqa: B023
        for entry in found.entries:
            await marks.refer(_names([entry.data]))
            if entry.subject.endswith(_NAMES_MANIFEST):
                with contextlib.suppress(BlobMissing, BlobDamaged, Invalid):
                    await _mark_manifest(blobs, marks, entry)
        if not found.entries or not found.pending:
            return
        start = found.entries[-1].seq + 1


async def _mark_manifest(blobs: Blobs, marks: Marks, entry: Entry) -> None:
    fact = codec.decode_fact(codec.decode_head(entry.data))
    manifest = fact.manifest if isinstance(fact, FileReady | FileManifest | SandboxSnapshotted) else None
    if manifest and await marks.begin_reading(bytes.fromhex(layout.check_name(manifest))):
        async for lines in manifest_lines(blobs, manifest):
            await marks.refer(_names(lines))


def _names(texts: Iterable[bytes]) -> list[bytes]:
    return [bytes.fromhex(name.decode()) for text in texts for name in _NAME.findall(text)]


class _Sweep:
    def __init__(self, bus: Bus, marks: Marks, old: datetime.datetime) -> None:
        self._bus = bus
        self._marks = marks
        self._old = old
        self._kept = self._removed = self._bytes = self._leftovers = 0

    async def run(self) -> Swept:
        async for entries in _pages(self._bus):
            await self._objects(entries)
        await self._unfinished()
        return Swept(self._kept, self._removed, self._bytes, self._leftovers)

    async def _objects(self, entries: list[Entry]) -> None:
        infos = [(entry, layout.decode_info(entry.data)) for entry in entries]
        referred = await self._marks.referred([bytes.fromhex(info.name) for _, info in infos])
        doomed = [
            (entry, info)
            for entry, info in infos
            if bytes.fromhex(info.name) not in referred and entry.time < self._old
        ]
        removed: set[str] = set()
        for some in (doomed[at : at + AT_ONCE] for at in range(0, len(doomed), AT_ONCE)):
            gone = await asyncio.gather(*(self._remove(entry, info) for entry, info in some))
            removed |= {info.nuid for (_, info), was_removed in zip(some, gone, strict=True) if was_removed}
        await self._marks.hold([info.nuid for _, info in infos if info.nuid not in removed])
        self._kept += len(infos) - len(removed)

    async def _remove(self, entry: Entry, info: ObjectInfo) -> bool:
        """By its sequence, so one that was renewed meanwhile stays. The chunks go after nothing names them."""
        try:
            await self._bus.api(f"STREAM.MSG.DELETE.{layout.STREAM}", {"seq": entry.seq, "no_erase": True})
        except ApiError:
            return False
        await self._purge(info.nuid)
        self._removed += 1
        self._bytes += info.size
        return True

    async def _purge(self, nuid: str) -> None:
        await self._bus.api(f"STREAM.PURGE.{layout.STREAM}", {"filter": layout.chunks_subject(nuid)})

    async def _unfinished(self) -> None:
        offset = 0
        while subjects_ := await self._chunk_subjects(offset):
            offset += len(subjects_)
            for nuid in await self._marks.not_held(map(layout.nuid_of, subjects_)):
                last = await page.fetch_last(self._bus, layout.chunks_subject(nuid), stream=layout.STREAM)
                if last is not None and last.time < self._old:
                    await self._purge(nuid)
                    self._leftovers += 1
                    offset -= 1

    async def _chunk_subjects(self, offset: int) -> list[str]:
        body = {"subjects_filter": layout.ALL_CHUNKS, "offset": offset}
        info = await self._bus.api(f"STREAM.INFO.{layout.STREAM}", body)
        return list(info["state"].get("subjects") or ())


async def _pages(bus: Bus) -> AsyncIterator[list[Entry]]:
    start = 1
    while True:
        found = await page.fetch(bus, layout.ALL_OBJECTS, start, stream=layout.STREAM)
        if found.entries:
            yield found.entries
        if not found.entries or not found.pending:
            return
        start = found.entries[-1].seq + 1
