"""An export read back from its file, line by line: whatever stands in it, no more than one line is held."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from contracts.errors import Invalid
from contracts.exports import MOST_LINE_BYTES, End, Header, Line, decode_line

_PACKED = b"\x1f\x8b"


class Unreadable(NamedTuple):
    """A line that is none of an export: of another make, changed, or longer than any can be."""

    line: int
    """From 1."""
    detail: str


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """Unpacked, where it is gzip, whatever its name. Raises `Invalid` if it cannot be opened."""
    try:
        raw = file.open("rb")
    except OSError as error:
        raise Invalid(f"cannot read {file}: {error.strerror}") from error
    with raw:
        packed = raw.read(len(_PACKED)) == _PACKED
        raw.seek(0)
        if not packed:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as unpacked:
            yield cast("BinaryIO", unpacked)


def lines(stream: BinaryIO) -> Iterator[Line | Unreadable]:
    """Every line in its order. A line that cannot be read is said to be so, and those after it follow.

    It ends where the file ends, or where nothing more can be unpacked: only an `End` tells that it is whole.
    """
    number = 0
    while True:
        number += 1
        try:
            raw = stream.readline(MOST_LINE_BYTES + 1)
            is_whole = len(raw) <= MOST_LINE_BYTES or _skip_rest(stream)
        except (OSError, EOFError, zlib.error) as error:
            yield Unreadable(number, f"the file is damaged from here on: {error}")
            return
        if not raw:
            return
        if raw.strip() or not is_whole:
            yield _line(raw, number) if is_whole else Unreadable(number, f"longer than {MOST_LINE_BYTES} bytes")


def _skip_rest(stream: BinaryIO) -> bool:
    """To the end of a line that is too long; never True."""
    while (raw := stream.readline(MOST_LINE_BYTES)) and not raw.endswith(b"\n"):
        pass
    return False


def _line(raw: bytes, number: int) -> Line | Unreadable:
    try:
        return decode_line(raw)
    except Invalid as error:
        return Unreadable(number, error.message)


def header_of(each: Iterator[Line | Unreadable]) -> Header:
    """Takes the first line. Raises `Invalid` if it is not the beginning of an export."""
    first = next(each, None)
    if isinstance(first, Header):
        return first
    why = f": {first.detail}" if isinstance(first, Unreadable) else ""
    raise Invalid(f"this is no export of Cloche; `cloche export SANDBOX --format jsonl` makes one{why}")


def whole(file: Path) -> Iterator[Line]:
    """Every line, the header first and the end last. Raises `Invalid`, naming the line, for anything else."""
    with opened(file) as stream:
        each = lines(stream)
        yield header_of(each)
        for number, line in enumerate(each, start=2):
            if isinstance(line, Unreadable):
                raise Invalid(f"{file}, line {line.line}: {line.detail}")
            if isinstance(line, Header):
                raise Invalid(f"{file}, line {number}: a second header")
            yield line
            if isinstance(line, End):
                if next(each, None) is not None:
                    raise Invalid(f"{file}: something stands after its end")
                return
    raise Invalid(f"{file} was cut off: it has no last line")
