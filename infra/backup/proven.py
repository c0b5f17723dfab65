"""What the audit of this data directory knows to have been in the log, whatever became of the store."""

from pathlib import Path
from typing import NamedTuple

from infra import clock
from infra.audit import place
from infra.audit.record import Record
from infra.audit.tail import Tail
from infra.durable import sync_directory
from infra.settings import Settings


class Proven(NamedTuple):
    directory: Path
    log: str | None
    """The log's own name."""
    sequence: int


def proven_here(settings: Settings) -> Proven | None:
    """None where no audit was ever here. Raises OSError."""
    directory = place.directory(settings.data)
    if not directory.is_dir() or not any(directory.iterdir()):
        return None
    last = Record(directory).last()
    seen = [each.sequence for each in Tail(directory).read()]
    return Proven(directory, place.log_name(directory), max([0 if last is None else last.sequence, *seen]))


def set_aside(settings: Settings) -> Path:
    """Out of the way, and kept: it proves what was lost. Returns where it is. Raises OSError."""
    directory = place.directory(settings.data).resolve()
    aside = directory.with_name(f"{directory.name}.before-{clock.now():%Y%m%dT%H%M%S.%fZ}")
    directory.rename(aside)
    directory.mkdir(mode=0o700)
    sync_directory(aside.parent)
    return aside
