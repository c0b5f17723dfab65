"""Where an export is written: a file that has its name only once it is whole, a pipe, or standard output."""

import asyncio
import contextlib
import errno
import gzip
import io
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO, cast

BUFFER_BYTES = 256 * 1024
GZIP_LEVEL = 6


class Sink:
    """Gathers what is written, and writes it in a thread: a slow disk keeps nobody waiting."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._waiting: list[bytes] = []
        self._held = 0
        self.bytes = 0
        """That were written, before they are compressed."""

    async def write(self, data: bytes) -> None:
        """Raises `OSError`."""
        self._waiting.append(data)
        self._held += len(data)
        self.bytes += len(data)
        if self._held >= BUFFER_BYTES:
            await self.flush()

    async def flush(self) -> None:
        waiting, self._waiting, self._held = self._waiting, [], 0
        await asyncio.to_thread(self._file.write, b"".join(waiting))


@contextlib.asynccontextmanager
async def sink_to(file: Path | None, named: Callable[[], Path] | None = None) -> AsyncIterator[Sink]:
    """`None` is standard output. A name that ends in `.gz` is compressed.

    The file is under another name until everything is in it and on the disk; if anything goes wrong, or the process is
    killed, there is no file of that name, or the one that was there before. `named` is asked at the end for a better
    name. What is there and no regular file, such as a pipe or `/dev/null`, is written to as it is. Raises `OSError`.
    """
    place = None if file is None else await asyncio.to_thread(_place, file)
    if place is None or (place.exists() and not place.is_file()):
        async with _poured(place) as sink:
            yield sink
        return
    part = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    raw = await asyncio.to_thread(_create, part)
    try:
        packed = _packed(raw) if place.name.endswith(".gz") else None
        sink = Sink(packed or raw)
        yield sink
        await sink.flush()
        await asyncio.to_thread(_finish, raw, packed, part, named() if named else place)
    except BaseException:
        with contextlib.suppress(OSError):
            raw.close()
        part.unlink(missing_ok=True)
        raise


def _place(file: Path) -> Path:
    """Behind every link. Raises `IsADirectoryError`."""
    place = file.resolve()
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    return place


@contextlib.asynccontextmanager
async def _poured(place: Path | None) -> AsyncIterator[Sink]:
    raw = sys.stdout.buffer if place is None else await asyncio.to_thread(place.open, "wb")
    try:
        sink = Sink(cast("BinaryIO", raw))
        yield sink
        await sink.flush()
        await asyncio.to_thread(raw.flush)
    finally:
        if place is not None:
            await asyncio.to_thread(raw.close)


def _create(part: Path) -> BinaryIO:
    # What was recorded may be nobody else's business.
    return cast(
        "BinaryIO", io.BufferedWriter(io.FileIO(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"))
    )


def _packed(raw: BinaryIO) -> BinaryIO:
    # Without name and time, the same events give the same file.
    return cast("BinaryIO", gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=GZIP_LEVEL, mtime=0))


def _finish(raw: BinaryIO, packed: BinaryIO | None, part: Path, file: Path) -> None:
    if packed is not None:
        packed.close()
    raw.flush()
    os.fsync(raw.fileno())
    raw.close()
    part.replace(file)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
