"""Of what a backup consists, and in which order. A file that has anything else is none, whoever made it."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import PurePosixPath

from contracts.errors import Invalid
from infra.backup import files
from infra.backup.contents import ABOUT, FILES, HEAD, ORDER, STREAMS


def refuse_strange(names: Sequence[str]) -> None:
    """Raises `Invalid` naming the first member that has no place there."""
    kept = [name for name in names if name.startswith(f"{FILES}/")]
    proper = (HEAD, *kept, *(part for stream in ORDER for part in _parts(stream, names)))
    for found, wanted in zip_longest(names, proper):
        if found != wanted:
            raise Invalid(f"{(found or wanted)[:200]!r} is no part of a backup, or not in its place")
    _refuse_files({files.check_name(name.partition("/")[2]) for name in kept})


def _parts(stream: str, names: Sequence[str]) -> Iterator[str]:
    """As many as there are, as they are called."""
    prefix = f"{STREAMS}/{stream}/"
    count = sum(name.startswith(prefix) for name in names)
    if count:
        yield f"{prefix}{ABOUT}"
        yield from (f"{prefix}{number:08}" for number in range(1, count))


def _refuse_files(paths: set[PurePosixPath]) -> None:
    for path in paths:
        if not paths.isdisjoint(path.parents):
            raise Invalid(f"{str(path)[:200]!r} is in a directory that is a file")
