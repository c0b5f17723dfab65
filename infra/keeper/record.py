"""A command's record while the keeper runs: its spool, how far it was confirmed, who waits for more."""

import asyncio
import shutil
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from infra.durable import write_durably
from infra.keeper.frame import Kind
from infra.keeper.outcome import Lost, Totals, encode
from infra.keeper.protocol import ExecInfo, Grown, State
from infra.keeper.spool import SpoolWriter
from infra.target import Target

META = "meta.json"


class Meta(Struct, frozen=True, kw_only=True):
    """What is written beside the spool before a command is started."""

    context: bytes = b""
    begun_ns: int = 0
    begun_boot_ns: int | None = None
    """By the clock that counts since the machine was started."""

    @property
    def age_s(self) -> float | None:
        passed_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - (self.begun_boot_ns or 0)
        return None if self.begun_boot_ns is None else max(passed_ns, 0) / 1e9


def read_meta(directory: Path) -> Meta | None:
    """None where a crash came before it was whole: then the command was not started. Raises OSError."""
    try:
        return msgspec.json.decode((directory / META).read_bytes(), type=Meta)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


class _Place(Struct, frozen=True, kw_only=True):
    target: Target | None = None


def read_target(directory: Path) -> Target | None:
    """Where the command was started; None where that cannot be read."""
    try:
        return msgspec.json.decode((directory / META).read_bytes(), type=_Place).target
    except (OSError, msgspec.DecodeError):
        return None


def claim(directory: Path, meta: bytes) -> "Record | None":
    """Begins a record; None where the exec was there before. Raises OSError where the disk refuses.

    The exclusive mkdir is what makes a command run at most once, so it must outlive a power cut.
    """
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        return None
    try:
        # On Linux's file systems fsync of a new file also makes the names that lead to it durable.
        write_durably(directory / META, meta)
        return Record(directory, msgspec.json.decode(meta, type=Meta))
    except OSError:
        remove(directory)
        raise


def remove(directory: Path) -> None:
    """Forgets a record. First what says that there is one: half of it, after a crash, would be a lost command."""
    (directory / META).unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


class Record:
    def __init__(self, directory: Path, meta: Meta) -> None:
        """Opens a record, or continues it. Raises OSError where the disk refuses."""
        self.directory = directory
        self.exec_id = directory.name
        self.meta = meta
        self.notes: list[str] = []
        self.pinned: int | None = None
        """From here on the record is still needed, whatever was confirmed."""
        self._spool = SpoolWriter(directory)
        self.began = False
        self.confirmed = self._spool.first
        self._waiting: set[asyncio.Future[None]] = set()
        if self.final:
            self._spool.close()

    @property
    def final(self) -> bool:
        return self._spool.summary.closed

    @property
    def size(self) -> int:
        return self._spool.size

    @property
    def exited(self) -> bool:
        return self._spool.summary.exited

    @property
    def backlog(self) -> int:
        return self.size - self.confirmed

    @property
    def totals(self) -> Totals:
        return self._spool.summary.as_totals()

    def append(self, kind: Kind, payload: bytes = b"") -> None:
        """Adds a frame and tells those who wait. Raises OSError where the disk refuses."""
        self._spool.append(kind, payload)
        if self.final:
            self._spool.close()
        self._wake()

    def close_lost(self, cause: str) -> None:
        """Ends a record whose command nobody holds any more. An end that is on it already stands."""
        if not self._spool.summary.exited:
            self.append(Kind.LOST, encode(Lost(cause=cause, totals=self.totals)))
        self.append(Kind.CLOSED)

    def confirm(self, position: int) -> None:
        """The log has everything before `position`. Raises OSError where the disk refuses."""
        self.confirmed = max(self.confirmed, min(position, self.size))
        self._spool.confirm(self.confirmed if self.pinned is None else min(self.confirmed, self.pinned))

    def read(self, position: int, size: int) -> bytes:
        """Bytes of the record, as they stand on disk. Raises OSError where the disk refuses."""
        return self._spool.read(position, size)

    async def wait_beyond(self, position: int) -> Grown:
        """Answers when the record is longer than `position`, or final."""
        while self.size <= position and not self.final:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                await waiting
            finally:
                self._waiting.discard(waiting)
        return Grown(size=self.size, final=self.final)

    def info(self) -> ExecInfo:
        return ExecInfo(
            exec=self.exec_id,
            state=self._state(),
            first=self._spool.first,
            size=self.size,
            context=self.meta.context,
            begun_ns=self.meta.begun_ns,
            age_s=self.meta.age_s,
            notes=tuple(self.notes),
        )

    def close(self) -> None:
        self._spool.close()
        self._wake()

    def _state(self) -> State:
        if self.final:
            return "lost" if self._spool.summary.lost else "closed"
        if self._spool.summary.exited:
            return "exited"
        return "running" if self.began else "starting"

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
