"""Takes sessions of other logs in, and tells which are here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contracts.archives import ImportList, ImportPiece, ImportProgress, ListImports
from contracts.errors import ClocheError, Unavailable
from infra.archive.importing import Importing
from infra.blobs.blobs import Blobs
from infra.bus.connection import Bus
from infra.ids import new_id
from infra.log.imports import all_imports
from services.replay.handlers import Answers

AT_ONCE = 8
IDLE_S = 120.0
"""After so long without a piece an import has to make room for another."""
NAMED = 1000


class _Session:
    def __init__(self, importing: Importing) -> None:
        self.importing = importing
        self.lock = asyncio.Lock()
        self.next = 0
        self.touched = asyncio.get_running_loop().time()
        self.progress = ImportProgress(place="", events=0, blobs=0)


class Imports:
    """Imports that are under way live here only: after a crash the file comes again from its beginning."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._blobs = Blobs(bus)
        self._sessions: dict[str, _Session] = {}
        self.place = new_id("place")
        """Where the pieces of what began here have to go."""

    def answers(self) -> Answers:
        return {"import": self.take, "imports": self.list}

    async def list(self, query: ListImports) -> ImportList:
        """Raises `Unavailable`."""
        newest = {record.sandbox: record async for record in all_imports(self._bus)}
        wanted = [name for name in sorted(newest) if query.after is None or name > query.after]
        page = tuple(newest[name] for name in wanted[: query.limit])
        return ImportList(imports=page, more=len(wanted) > len(page))

    async def take(self, piece: ImportPiece) -> ImportProgress:
        """Raises what `Importing` raises, `Unavailable` for a piece that does not follow: begin again."""
        if piece.part == 0:
            await self._begin(piece.import_id)
        session = self._sessions.get(piece.import_id)
        if session is None:
            raise Unavailable(f"nothing is known of import {piece.import_id}: begin with its first piece")
        async with session.lock:
            return await self._feed(session, piece)

    async def _begin(self, name: str) -> None:
        await self._end(name)
        await self._make_room()
        self._sessions[name] = _Session(Importing(self._bus, self._blobs, name))

    async def _make_room(self) -> None:
        if len(self._sessions) < AT_ONCE:
            return
        for name in [name for name, session in self._sessions.items() if session.progress.sandboxes]:
            await self._end(name)
        if len(self._sessions) < AT_ONCE:
            return
        oldest = min(self._sessions, key=lambda name: self._sessions[name].touched)
        if asyncio.get_running_loop().time() - self._sessions[oldest].touched < IDLE_S:
            raise Unavailable(f"{AT_ONCE} imports are under way: try again when one of them is done")
        await self._end(oldest)

    async def _feed(self, session: _Session, piece: ImportPiece) -> ImportProgress:
        session.touched = asyncio.get_running_loop().time()
        if piece.part == session.next - 1:
            return session.progress
        if piece.part != session.next or self._sessions.get(piece.import_id) is not session:
            raise Unavailable(f"piece {piece.part} of import {piece.import_id} does not follow: begin with the first")
        try:
            await session.importing.feed(piece.data)
            if piece.last:
                await session.importing.finish()
        except ClocheError:
            await self._end(piece.import_id)
            raise
        session.next += 1
        session.progress = self._progress(session.importing, done=piece.last)
        return session.progress

    def _progress(self, importing: Importing, *, done: bool) -> ImportProgress:
        named = tuple(importing.sandboxes[:NAMED]) if done else ()
        return ImportProgress(place=self.place, events=importing.events, blobs=importing.blobs, sandboxes=named)

    async def _end(self, name: str) -> None:
        if (session := self._sessions.pop(name, None)) is not None:
            await session.importing.aclose()

    async def aclose(self) -> None:
        for name in list(self._sessions):
            await self._end(name)


@asynccontextmanager
async def open_imports(bus: Bus) -> AsyncIterator[Imports]:
    imports = Imports(bus)
    try:
        yield imports
    finally:
        await imports.aclose()
