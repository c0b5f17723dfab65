"""What the node that keeps a log knows of it besides: its key, its name, and its own record of the checkpoints."""

from pathlib import Path
from typing import NamedTuple

from contracts.errors import Invalid
from infra.audit import place
from infra.audit.keys import Keys
from infra.audit.record import FILE
from infra.audit.signing import public_of
from infra.export.jsonl import log_name
from infra.log.view import LogView
from infra.verify import anchors
from infra.verify.anchors import AnchorFile


class Keeping(NamedTuple):
    log: str = ""
    """Empty where nothing is known."""
    key: str | None = None
    """The public one of the key that signs now."""
    checkpoints: tuple[AnchorFile, ...] = ()

    async def is_of(self, view: LogView) -> bool:
        """Whether it is about the log that somebody reads: the data directory may be that of another one.

        A log that tells of no checkpoint may have lost them. Raises `Unavailable`.
        """
        return bool(self.log) and await log_name(view) in ("", self.log)


def read(data: Path) -> Keeping:
    """Before the log is read: what is written meanwhile would seem to be missing there. Nothing where it may not."""
    directory = place.directory(data)
    try:
        log = place.log_name(directory)
    except OSError:
        return Keeping()
    return Keeping(log or "", _key(directory), _checkpoints(directory))


def _checkpoints(directory: Path) -> tuple[AnchorFile, ...]:
    """None where nothing was proven yet, or the file is lost or damaged: then the key still counts."""
    try:
        return (anchors.read(directory / FILE),)
    except Invalid:
        return ()


def _key(directory: Path) -> str | None:
    try:
        key = Keys(directory).current()
    except (OSError, Invalid):
        return None
    return None if key is None else public_of(key)
