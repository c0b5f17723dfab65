"""Transfers in progress, on disk, so that they outlive the service."""

import base64
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from contracts.errors import Conflict, Failure, Invalid
from contracts.ids import is_token
from infra.files.paths import Names

STATE = "state.json"
ENDED = ".~ended"
"""No id of a transfer has a `~`."""
MAX_OPEN = 64
"""Of one sandbox."""
PART = b"part-"
"""Begins the name of a file that is being uploaded."""


class Part(Struct, frozen=True, kw_only=True):
    """A file that is being uploaded; another size or time is another content."""

    path: str
    """base64 of the names on the way to it, joined."""
    size: int
    mtime_us: int | None


class Transfer(Struct, frozen=True, kw_only=True):
    kind: Literal["upload", "download"]
    sandbox: str
    transfer: str
    call: str
    """Of the `tool` events."""
    asked_by: str | None
    path: str
    """base64 of the names on the way to the top, joined."""
    begun_ns: int
    life: str = ""
    """Of the sandbox: what was copied into another one may not be there any more."""
    number: int = 0
    files: int = 0
    bytes: int = 0
    digest: str = ""
    """Of the pieces that were taken."""
    part: Part | None = None
    is_over: bool = False
    """Its end is told, or is about to be: nothing is copied any more, and no other end is told."""
    failure: Failure | None = None
    """With which it ended."""
    asked: str | None = None
    """A digest of the last pieces that were wanted: asked for again they are not counted again."""

    @property
    def names(self) -> Names:
        return tuple(name for name in base64.b64decode(self.path).split(b"/") if name)


def encoded(names: Names) -> str:
    return base64.b64encode(b"/".join(names)).decode()


class Transfers:
    """One directory for each; of one that has ended, a file that says what came of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def place(self, sandbox: str, transfer: str) -> Path:
        if not (is_token(sandbox) and is_token(transfer)):
            raise Invalid(f"{transfer[:80]!r} is not the id of a transfer")
        return self._directory / f"{sandbox}.{transfer}"

    def begin(self, wanted: Transfer) -> Transfer:
        """The transfer; one with the same id that is under way already, if it is the same.

        Raises `Conflict`: it is another one, or the sandbox has `MAX_OPEN` already.
        """
        try:
            known = self.load(wanted.sandbox, wanted.transfer)
        except Invalid:
            self._make(wanted)
            return wanted
        if (known.kind, known.path) != (wanted.kind, wanted.path):
            raise Conflict(f"transfer {wanted.transfer!r} is another {known.kind}: choose a new id")
        return known

    def _make(self, wanted: Transfer) -> None:
        place = self.place(wanted.sandbox, wanted.transfer)
        beginning = f"{wanted.sandbox}."
        opened = [each for each in self._places() if each.name.startswith(beginning) and each.suffix != ENDED]
        if len(opened) >= MAX_OPEN and place not in opened:
            raise Conflict(f"sandbox {wanted.sandbox!r} has {MAX_OPEN} transfers under way: end one of them")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700, parents=True)
        self.save(wanted)
        self._ended(wanted.sandbox, wanted.transfer).unlink(missing_ok=True)

    def load(self, sandbox: str, transfer: str) -> Transfer:
        """Raises `Invalid` where there is none of that id."""
        return self._read(self.place(sandbox, transfer) / STATE, transfer)

    def save(self, transfer: Transfer) -> None:
        place = self.place(transfer.sandbox, transfer.transfer)
        draft = place / f"{STATE}.draft"
        draft.write_bytes(msgspec.json.encode(transfer))
        draft.replace(place / STATE)

    def end(self, transfer: Transfer) -> None:
        """What came of it is known until it is forgotten: its end may be asked for again."""
        ended = self._ended(transfer.sandbox, transfer.transfer)
        draft = self.place(transfer.sandbox, transfer.transfer) / f"{STATE}.draft"
        draft.write_bytes(msgspec.json.encode(transfer))
        draft.replace(ended)
        self.drop(transfer)

    def drop(self, transfer: Transfer) -> None:
        shutil.rmtree(self.place(transfer.sandbox, transfer.transfer), ignore_errors=True)

    def ended(self, sandbox: str, transfer: str) -> Transfer:
        """Raises `Invalid` where none of that id has ended of late."""
        return self._read(self._ended(sandbox, transfer), transfer)

    def abandoned(self, after_s: float) -> list[Transfer]:
        """Nothing has come of these for so long. Forgets what ended, or was never really begun, that long ago."""
        found: list[Transfer] = []
        for place in self._places():
            with suppress(FileNotFoundError):
                if place.suffix == ENDED:
                    if _age_s(place) > after_s:
                        place.unlink()
                elif not (place / STATE).exists():
                    if _age_s(place) > after_s:
                        shutil.rmtree(place, ignore_errors=True)
                elif _age_s(place / STATE) > after_s:
                    found += self._readable(place)
        return found

    def _readable(self, place: Path) -> list[Transfer]:
        try:
            return [self._read(place / STATE, place.name)]
        except Invalid:
            shutil.rmtree(place, ignore_errors=True)
            return []

    def _places(self) -> list[Path]:
        return list(self._directory.iterdir()) if self._directory.is_dir() else []

    def _ended(self, sandbox: str, transfer: str) -> Path:
        place = self.place(sandbox, transfer)
        return place.with_name(place.name + ENDED)

    def _read(self, file: Path, name: str) -> Transfer:
        try:
            return msgspec.json.decode(file.read_bytes(), type=Transfer)
        except (FileNotFoundError, msgspec.MsgspecError):
            raise no_transfer(name) from None


def no_transfer(transfer: str) -> Invalid:
    return Invalid(f"there is no transfer {transfer[:80]!r}: it has ended, or was given up")


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def open_place(place: Path) -> int:
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
