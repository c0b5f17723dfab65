"""What was let through and is not on the log yet, in a file that outlives this process."""

import datetime
import os
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
from msgspec import Struct

from contracts.events.network import NetworkAllowed
from contracts.ids import is_token
from infra.ids import new_id

SUFFIX = ".requests"
FRESH = ".new"
LARGE_BYTES = 4 << 20


class Begun(Struct, tag="begun", frozen=True, kw_only=True):
    """Written before the first byte leaves."""

    number: int
    request: NetworkAllowed


class Dropped(Struct, tag="dropped", frozen=True, kw_only=True):
    """Nothing left after all."""

    number: int


class Ended(Struct, tag="ended", frozen=True, kw_only=True):
    """Written where it has ended and there is no time left to tell so."""

    number: int
    request: NetworkAllowed


class Told(Struct, tag="told", frozen=True, kw_only=True):
    """Written before these are published, as one event. Once there is a later one, the log has it."""

    number: int
    at: datetime.datetime
    tells: tuple[int, ...]
    requests: tuple[NetworkAllowed, ...]


Line = Begun | Dropped | Ended | Told
_decoder = msgspec.json.Decoder(Line)
_encoder = msgspec.json.Encoder()


class Name(NamedTuple):
    sandbox: str
    life: str
    """Of the process that wrote it, so that no two events share an id."""


def name_of(path: Path) -> Name | None:
    """None for a file that is none of ours."""
    sandbox, _, life = path.name.removesuffix(SUFFIX).partition(".")
    return Name(sandbox, life) if path.name.endswith(SUFFIX) and is_token(sandbox) and is_token(life) else None


class Ledger:
    """Appends lines, and knows what they come to. Every method that writes raises OSError where the disk refuses."""

    def __init__(self, path: Path, name: Name, descriptor: int) -> None:
        self._path = path
        self.name = name
        self._descriptor = descriptor
        self.open: dict[int, NetworkAllowed] = {}
        """Let through and not told, by number."""
        self.ended: set[int] = set()
        """Those of `open` of which all is known."""
        self.last_told: Told | None = None
        """Perhaps not on the log yet."""
        self._numbers = 0
        self._events = 0
        self._size = 0
        self._compact_at = LARGE_BYTES

    @classmethod
    def begin(cls, directory: Path, sandbox: str) -> Self:
        """A new one. Readable by the owner only."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = Name(sandbox, new_id("n"))
        path = directory / f"{name.sandbox}.{name.life}{SUFFIX}"
        return cls(path, name, _append_to(path, os.O_CREAT | os.O_EXCL))

    @classmethod
    def again(cls, path: Path, name: Name) -> Self:
        """One that an earlier life has left. What it was writing when it died is cut off."""
        content = path.read_bytes()
        ledger = cls(path, name, _append_to(path))
        for line in content.splitlines(keepends=True):
            try:
                ledger._apply(_decoder.decode(line))
            except msgspec.MsgspecError:
                break
            if not line.endswith(b"\n"):
                break
            ledger._size += len(line)
        os.ftruncate(ledger._descriptor, ledger._size)
        return ledger

    def intend(self, request: NetworkAllowed) -> int:
        """Returns its number once a process that dies leaves word of it."""
        self._numbers += 1
        self._write(Begun(number=self._numbers, request=request))
        return self._numbers

    def drop(self, number: int) -> None:
        self._write(Dropped(number=number))

    def end(self, number: int | None, request: NetworkAllowed) -> None:
        """For whoever opens it next. A number may be absent: nothing was to leave."""
        self._write(Ended(number=self.intend(request) if number is None else number, request=request))

    def tell(self, at: datetime.datetime, ended: list[tuple[int | None, NetworkAllowed]]) -> Told:
        """What is to be published next. A number may be absent: nothing was to leave."""
        told = Told(
            number=self._events + 1,
            at=at,
            tells=tuple(number for number, _ in ended if number is not None),
            requests=tuple(request for _, request in ended),
        )
        self._write(told)
        return told

    def confirm(self) -> None:
        """The log has what was told last."""
        self.last_told = None
        if self._size > self._compact_at:
            self._compact()

    def close(self) -> None:
        """Removes the file where there is nothing left to tell."""
        os.close(self._descriptor)
        if not self.open and self.last_told is None:
            self._path.unlink(missing_ok=True)

    def _write(self, line: Line) -> None:
        data = _encoder.encode(line) + b"\n"
        written = os.write(self._descriptor, data)
        if written < len(data):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(f"{self._path.name}: the disk is full")
        self._size += written
        self._apply(line)

    def _apply(self, line: Line) -> None:
        match line:
            case Begun() | Ended():
                self.open[line.number] = line.request
                self._numbers = max(self._numbers, line.number)
                if isinstance(line, Ended):
                    self.ended.add(line.number)
            case Dropped():
                self.open.pop(line.number, None)
            case Told():
                for number in line.tells:
                    self.open.pop(number, None)
                self.ended.difference_update(line.tells)
                self.last_told = line
                self._events = line.number

    def _compact(self) -> None:
        fresh = self._path.with_suffix(FRESH)
        kept: list[Line] = [
            Ended(number=number, request=request) if number in self.ended else Begun(number=number, request=request)
            for number, request in self.open.items()
        ]
        # An empty one keeps the count of events, without which an id would come twice.
        kept.insert(0, Told(number=self._events, at=_LONG_AGO, tells=(), requests=()))
        data = b"".join(_encoder.encode(line) + b"\n" for line in kept)
        fresh.unlink(missing_ok=True)
        descriptor = _append_to(fresh, os.O_CREAT | os.O_EXCL)
        try:
            if os.write(descriptor, data) < len(data):
                raise OSError(f"{fresh.name}: the disk is full")
            fresh.rename(self._path)
        except OSError:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._size = len(data)
        self._compact_at = max(LARGE_BYTES, 2 * self._size)


_LONG_AGO = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)


def _append_to(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
