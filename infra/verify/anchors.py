"""Checkpoints that were kept outside of a log, from their files."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from contracts.anchoring import Kept
from contracts.audits import Anchor
from contracts.chain import anchor
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint
from contracts.message import Time

MOST_LINE_BYTES = 4 * 1024 * 1024


class _Whole(Struct, frozen=True, kw_only=True):
    """As the node keeps them, with all that they list."""

    checkpoint: AuditCheckpoint
    time: Time


T = TypeVar("T")
_anchors = msgspec.json.Decoder(Anchor)
_wholes = msgspec.json.Decoder(_Whole)


def read(file: Path) -> list[Kept]:
    """One for each line: anchors, or the node's own record of its checkpoints. What they list stays in the file.

    Lines that are neither, as the first one of a log in which something else is written too, or a last one that a crash
    has left half written, are passed over. Raises `Invalid` for a file that cannot be read, or has no anchor at all.
    """
    try:
        found = [kept for at, line in _lines(file) if (kept := _kept(file, at, line)) is not None]
    except OSError as error:
        raise Invalid(f"cannot read the anchors in {file}: {error.strerror}") from error
    if not found:
        # Also where it is empty: whoever names it expects something of it.
        raise Invalid(f"{file} has no anchor in it: one JSON object a line, as `audit.anchors` writes them")
    return found


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """With where they begin. What is longer than any of ours comes in pieces, none of which is an anchor."""
    with file.open("rb") as stream:
        at = 0
        while line := stream.readline(MOST_LINE_BYTES):
            yield at, line
            at += len(line)


def _kept(file: Path, at: int, line: bytes) -> Kept | None:
    if b'"leaves_sha256"' in line:
        said = _decoded(_anchors, line)
        return None if said is None else Kept(said)
    whole = _decoded(_wholes, line)
    return None if whole is None else Kept(anchor(whole.checkpoint, whole.time), lambda: _leaves(file, at))


def _decoded(decoder: msgspec.json.Decoder[T], line: bytes) -> T | None:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _leaves(file: Path, at: int) -> str:
    """Raises `Invalid` if they are not there any more."""
    try:
        with file.open("rb") as stream:
            stream.seek(at)
            whole = _decoded(_wholes, stream.readline(MOST_LINE_BYTES))
    except OSError as error:
        raise Invalid(f"cannot read {file} again: {error.strerror}") from error
    if whole is None:
        raise Invalid(f"{file} was changed while it was read")
    return whole.checkpoint.leaves
