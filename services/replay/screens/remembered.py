"""Terminals on the way, remembered: derived and disposable."""

import functools
import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from contracts.errors import Invalid
from infra import terminal
from infra.bus.page import Entry
from infra.terminal.emulator import Emulator
from services.replay.past.snapshots import mark_of
from services.replay.past.store import SnapshotStore
from services.replay.screens.playing import Played


class _Kept(Struct, frozen=True, kw_only=True):
    event: str
    """Tells the last event that was played from any other with its sequence."""
    dump: bytes
    pty: bool
    bytes: int
    began: bool
    ended: bool


class Remembered(NamedTuple):
    sequence: int
    event: str
    played: Played


@functools.cache
def terminal_version() -> str:
    """What another version of the terminal has kept is never met again."""
    hashed = hashlib.sha256(f"{msgspec.__version__} {version('pyte')} {version('wcwidth')}".encode())
    for place in sorted(terminal.__path__):
        for path in sorted(Path(place).glob("*.py")):
            hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]


class RememberedScreens:
    """Blocking: for threads."""

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store

    def nearest(self, sandbox: str, exec_id: str, at: int) -> Remembered | None:
        name = _name(sandbox, exec_id)
        while (found := self._store.nearest(name, at)) is not None:
            try:
                kept = msgspec.msgpack.decode(found.content, type=_Kept)
                played = Played(Emulator.load(kept.dump))
            except (msgspec.MsgspecError, Invalid):
                self._store.forget(name, found.sequence)
                at = found.sequence - 1
                continue
            played.pty, played.bytes, played.began, played.ended = kept.pty, kept.bytes, kept.began, kept.ended
            return Remembered(sequence=found.sequence, event=kept.event, played=played)
        return None

    def keep(self, sandbox: str, exec_id: str, entry: Entry, played: Played) -> None:
        """After this entry."""
        kept = _Kept(
            event=mark_of(entry),
            dump=played.emulator.dump(),
            pty=played.pty,
            bytes=played.bytes,
            began=played.began,
            ended=played.ended,
        )
        self._store.write(_name(sandbox, exec_id), entry.seq, msgspec.msgpack.encode(kept))

    def forget(self, sandbox: str, exec_id: str) -> None:
        self._store.forget(_name(sandbox, exec_id))

    def clear(self) -> None:
        self._store.clear()

    def clear_others(self) -> None:
        self._store.clear_others()


def _name(sandbox: str, exec_id: str) -> str:
    return hashlib.sha256(f"{sandbox} {exec_id}".encode()).hexdigest()[:32]
