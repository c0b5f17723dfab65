"""What a log is about to forget, as files: each an export of a range, none twice, each whole before the next begins."""

import asyncio
import contextlib
import fcntl
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

from infra.export.jsonl import Exported, Span, export
from infra.export.sink import sink_to
from infra.log.view import LogView

_NAME = re.compile(r"cloche-(\d{20})-(\d{20})-(\d+)\.jsonl\.gz\Z")
_PART = re.compile(r"\.cloche-.*\.part\Z")
_LOCK = ".lock"
_CONTENTS = ".contents.sqlite"


class Segment(NamedTuple):
    first: int
    last: int
    bytes: int
    """That its events took in the log, roughly."""

    @property
    def name(self) -> str:
        return f"cloche-{self.first:020d}-{self.last:020d}-{self.bytes}.jsonl.gz"


class _Contents:
    """Which contents some segment has already. If this is lost, some are written again."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self) -> None:
        try:
            self._connect()
        except sqlite3.DatabaseError:
            self._file.unlink()
            self._connect()

    def _connect(self) -> None:
        self._database = sqlite3.connect(self._file, check_same_thread=False, isolation_level=None)
        self._database.execute("CREATE TABLE IF NOT EXISTS written (name TEXT PRIMARY KEY) WITHOUT ROWID")
        self._database.execute("BEGIN")

    def commit(self) -> None:
        self._database.execute("COMMIT")

    def close(self) -> None:
        """What was not committed is as if it had not been."""
        self._database.close()

    async def wanted(self, names: Sequence[str]) -> list[str]:
        return await asyncio.to_thread(self._new, names)

    def _new(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self._insert(name)]

    def _insert(self, name: str) -> bool:
        return self._database.execute("INSERT OR IGNORE INTO written VALUES (?)", (name,)).rowcount > 0


class Segments:
    """A directory of them. One process writes there at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[bool]:
        """False where somebody else writes. Raises `OSError`."""
        lock = await asyncio.to_thread(self._open)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            await asyncio.to_thread(self._tidy)
            yield True
        finally:
            os.close(lock)

    def _open(self) -> int:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _tidy(self) -> None:
        """What a process left that was killed."""
        for each in self._directory.iterdir():
            if _PART.match(each.name):
                each.unlink(missing_ok=True)

    async def all(self) -> list[Segment]:
        """In the order of their sequences. Raises `OSError`."""
        names = await asyncio.to_thread(os.listdir, self._directory)
        return sorted(Segment(*map(int, found.groups())) for name in names if (found := _NAME.match(name)))

    async def write(self, view: LogView, span: Span) -> Exported:
        """On the disk when this returns. Raises `OSError`, `sqlite3.Error`, `Unavailable`."""
        contents = _Contents(self._directory / _CONTENTS)
        await asyncio.to_thread(contents.open)
        try:
            result: Exported | None = None

            def named() -> Path:
                return self._directory / Segment(span.first, span.last, result.bytes if result else 0).name

            async with sink_to(named(), named) as sink:
                result = await export(view, sink, span, sandbox=None, sieve=contents)
            # After the file: a crash in between writes contents twice, never not at all.
            await asyncio.to_thread(contents.commit)
            return result
        finally:
            await asyncio.to_thread(contents.close)
