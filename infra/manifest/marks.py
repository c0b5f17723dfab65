"""Which blobs something refers to: more than memory may hold, so on disk."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_AT_ONCE = 5000
_MAKE = """
CREATE TABLE referred (name BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE read (name BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE held (nuid TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class Marks:
    """In a file of its own, which is gone with it. A crash leaves the file, and the next one begins it anew."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waiting: list[tuple[bytes]] = []

    async def __aenter__(self) -> Self:
        self._database = await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await asyncio.to_thread(self._close)

    def _open(self) -> sqlite3.Connection:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.unlink(missing_ok=True)
        database = sqlite3.connect(self._file, check_same_thread=False, isolation_level=None)
        database.execute("PRAGMA journal_mode=OFF")
        database.execute("PRAGMA synchronous=OFF")
        database.executescript(_MAKE)
        return database

    def _close(self) -> None:
        self._database.close()
        self._file.unlink(missing_ok=True)

    async def refer(self, names: Iterable[bytes]) -> None:
        """Names as raw bytes of the hash."""
        self._waiting += [(name,) for name in names]
        if len(self._waiting) >= _AT_ONCE:
            await self._write()

    async def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        await asyncio.to_thread(self._insert, waiting)

    def _insert(self, names: list[tuple[bytes]]) -> None:
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR IGNORE INTO referred VALUES (?)", names)
        self._database.execute("COMMIT")

    async def referred(self, names: Iterable[bytes]) -> set[bytes]:
        """Those of them that something refers to."""
        await self._write()
        return await asyncio.to_thread(lambda: {name for name in names if self._has("referred", "name", name)})

    async def all_referred(self, at_once: int) -> AsyncIterator[list[bytes]]:
        """Every name that something refers to, once and in order, a portion at a time."""
        await self._write()
        after = b""
        while some := await asyncio.to_thread(self._referred_after, after, at_once):
            yield some
            after = some[-1]

    def _referred_after(self, after: bytes, limit: int) -> list[bytes]:
        query = "SELECT name FROM referred WHERE name > ? ORDER BY name LIMIT ?"
        return [name for (name,) in self._database.execute(query, (after, limit))]

    async def begin_reading(self, name: bytes) -> bool:
        """False for a manifest that was read before."""
        if await asyncio.to_thread(self._has, "read", "name", name):
            return False
        await asyncio.to_thread(self._database.execute, "INSERT INTO read VALUES (?)", (name,))
        return True

    async def hold(self, nuids: Iterable[str]) -> None:
        """Chunks that an object names."""
        rows = [(nuid,) for nuid in nuids]
        await asyncio.to_thread(self._database.executemany, "INSERT OR IGNORE INTO held VALUES (?)", rows)

    async def not_held(self, nuids: Iterable[str]) -> list[str]:
        return await asyncio.to_thread(lambda: [nuid for nuid in nuids if not self._has("held", "nuid", nuid)])

    def _has(self, table: str, column: str, value: object) -> bool:
        found = self._database.execute(f"SELECT 1 FROM {table} WHERE {column} = ?", (value,))  # noqa: S608  ours
        return found.fetchone() is not None
