"""Transfers in progress, on disk, so that they outlive the service."""

import base64
import os
import shutil
import time
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from contracts.errors import Conflict, Invalid
from contracts.ids import is_token
from infra.files.paths import Names

STATE = "state.json"
PART = b"part-"
"""Begins the name of a file that is being uploaded."""


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
    number: int = 0
    files: int = 0
    bytes: int = 0
    part: str | None = None
    """base64 of the path of the file that is being uploaded."""

    @property
    def names(self) -> Names:
        return tuple(name for name in base64.b64decode(self.path).split(b"/") if name)


def encoded(names: Names) -> str:
    return base64.b64encode(b"/".join(names)).decode()


class Transfers:
    """One directory for each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def place(self, sandbox: str, transfer: str) -> Path:
        if not (is_token(sandbox) and is_token(transfer)):
            raise Invalid(f"{transfer[:80]!r} is not the id of a transfer")
        return self._directory / f"{sandbox}.{transfer}"

    def begin(self, wanted: Transfer) -> Transfer:
        """The transfer; one with the same id that is under way already, if it is the same. Raises `Conflict`."""
        place = self.place(wanted.sandbox, wanted.transfer)
        try:
            known = self.load(wanted.sandbox, wanted.transfer)
        except Invalid:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.save(wanted)
            return wanted
        if (known.kind, known.path) != (wanted.kind, wanted.path):
            raise Conflict(f"transfer {wanted.transfer!r} is another {known.kind}: choose a new id")
        return known

    def load(self, sandbox: str, transfer: str) -> Transfer:
        """Raises `Invalid` where there is none of that id."""
        return self._read(self.place(sandbox, transfer), transfer)

    def save(self, transfer: Transfer) -> None:
        place = self.place(transfer.sandbox, transfer.transfer)
        draft = place / f"{STATE}.draft"
        draft.write_bytes(msgspec.json.encode(transfer))
        draft.replace(place / STATE)

    def end(self, transfer: Transfer) -> None:
        shutil.rmtree(self.place(transfer.sandbox, transfer.transfer), ignore_errors=True)

    def abandoned(self, after_s: float) -> list[Transfer]:
        """Nothing has come of these for so long."""
        found: list[Transfer] = []
        for place in self._directory.iterdir() if self._directory.is_dir() else ():
            try:
                if time.time() - (place / STATE).stat().st_mtime > after_s:
                    found.append(self._read(place, place.name))
            except (OSError, Invalid):
                continue
        return found

    def _read(self, place: Path, name: str) -> Transfer:
        try:
            return msgspec.json.decode((place / STATE).read_bytes(), type=Transfer)
        except (OSError, msgspec.MsgspecError):
            raise Invalid(f"there is no transfer {name[:80]!r}: it has ended, or was given up") from None


def open_place(place: Path) -> int:
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
