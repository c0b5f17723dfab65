"""Sessions of other logs, as a program outside brings them in."""

import asyncio
import hashlib
import stat
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

from contracts import subjects
from contracts.archives import (
    PIECE_BYTES,
    Imported,
    ImportList,
    ImportPiece,
    ImportProgress,
    ListImports,
    import_id,
)
from contracts.errors import Invalid, Unavailable
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.export.reading import opened

ATTEMPTS = 5
PIECE_TIMEOUT_S = 60.0

Progress = Callable[[int, int], None]
"""Called with how much of the file is done, and how much there is, in bytes."""


async def import_file(bus: Bus, file: Path, progress: Progress = lambda _done, _whole: None) -> ImportProgress:
    """Bring an export in, for reading; gzip or not. After a failure it may be called again with the same file.

    Raises `Invalid` (not an export, damaged, cut off), `Conflict` (a sandbox of that name is here already),
    `StoreFull`, `Unavailable`.
    """
    size = await asyncio.to_thread(_size, file)
    # Read twice, to be named by all that is in it: half of another file that begins alike must not be taken for this.
    name = await _name(file, lambda done: progress(done // 2, size))
    for attempt in range(ATTEMPTS):
        try:
            return await _send(bus, file, name, lambda done: progress((size + done) // 2, size))
        except Unavailable:
            # Whoever had the pieces so far is gone: whoever is there now gets them all.
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _size(file: Path) -> int:
    try:
        found = file.stat()
    except OSError as error:
        raise Invalid(f"cannot read {file}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"cannot read {file}: it is no file")
    return found.st_size


async def _name(file: Path, tell: Callable[[int], None]) -> str:
    hashed = hashlib.sha256()
    async for data in _pieces(file, tell):
        hashed.update(data)
    return import_id(hashed.hexdigest())


async def _send(bus: Bus, file: Path, name: str, tell: Callable[[int], None]) -> ImportProgress:
    async with aclosing(_pieces(file, tell)) as pieces:
        data, place, part = await anext(pieces, b""), "", 0
        while True:
            following = await anext(pieces, b"")
            piece = ImportPiece(import_id=name, part=part, data=data, last=not following)
            answer = await _hand_over(bus, piece, place)
            if not following:
                return answer
            data, place, part = following, answer.place, part + 1


async def _pieces(file: Path, tell: Callable[[int], None]) -> AsyncGenerator[bytes]:
    """Unpacked. `tell` hears how far the file itself was read."""
    with opened(file) as stream:
        while data := await _read(stream):
            yield data
            tell(getattr(stream, "fileobj", stream).tell())


async def _hand_over(bus: Bus, piece: ImportPiece, place: str) -> ImportProgress:
    subject = subjects.state_rpc(f"import.{place}" if place else "import")
    answer: ImportProgress = await ask(bus, subject, piece, ImportProgress, timeout=PIECE_TIMEOUT_S)
    return answer


async def _read(stream: BinaryIO) -> bytes:
    try:
        return await asyncio.to_thread(stream.read, PIECE_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid(f"the file cannot be read: {error}") from error


async def imports(bus: Bus) -> list[Imported]:
    """Every sandbox that was imported, by its id. Raises `Unavailable`."""
    found: list[Imported] = []
    while True:
        after = found[-1].sandbox if found else None
        page: ImportList = await ask(bus, subjects.state_rpc("imports"), ListImports(after=after), ImportList)
        found += page.imports
        if not page.more or not page.imports:
            return found
