"""A backup, taken while everything runs."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from contracts.errors import Conflict
from infra import clock
from infra.audit.keys import Keys
from infra.audit.signing import public_of, sign
from infra.backup import files
from infra.backup.archive import Sign, Writer
from infra.backup.contents import ABOUT, FILES, FORMAT, HEAD, ORDER, STREAMS, About, Backup, Contained, Head, Signature
from infra.backup.snapshots import snapshot
from infra.bus.connection import Bus
from infra.bus.errors import STREAM_NOT_FOUND, ApiError
from infra.settings import Settings

logger = logging.getLogger(__name__)

PART_BYTES = 8 * 1024 * 1024

Tell = Callable[[str, int, int], None]
"""What is at work, how much of it is done, and how much there is: bytes of the store, before they are compressed."""


async def take(settings: Settings, admin: Bus, path: Path, tell: Tell = lambda *_: None) -> Backup:
    """Everything that the log cannot be made again from, in one file that only its owner can read.

    The log is as it was at one moment. What was written before that is in it, with all that it names; of what was
    written later there may be contents and no event. Memory does not grow with the store.

    Raises `Invalid` where the file exists, `Conflict` where the key of the audit was changed meanwhile, `Unavailable`
    and `ApiError` where a server does not give a stream, OSError where the disk refuses.
    """
    head = Head(format=FORMAT, made_at=clock.now(), node=settings.node, realm=settings.realm)
    key = await asyncio.to_thread(files.signing_key, settings)
    signing = await asyncio.to_thread(_signing, settings)
    with Writer(path, signing) as writer:
        await asyncio.to_thread(writer.add, HEAD, msgspec.json.encode(head))
        names = await asyncio.to_thread(_add_files, settings, writer)
        streams = [each for name in ORDER if (each := await _add_stream(admin, name, writer, tell)) is not None]
        if await asyncio.to_thread(files.signing_key, settings) != key:
            raise Conflict("the key of the audit was changed while the backup was taken: take it again")
    size = (await asyncio.to_thread(path.stat)).st_size
    return Backup(
        file=str(path),
        bytes=size,
        made_at=head.made_at,
        node=head.node,
        streams=tuple(streams),
        files=names,
        signed_by=None if signing is None else signing(b"").key,
    )


def _signing(settings: Settings) -> Sign | None:
    """By the key of the audit; None where there is none. Raises `Invalid`, OSError."""
    key = Keys(files.place_of(settings, files.AUDIT)).current()
    return None if key is None else lambda said: Signature(key=public_of(key), signature=sign(key, said))


def _add_files(settings: Settings, writer: Writer) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for piece in files.read(settings):
        writer.add(f"{FILES}/{piece.name}", piece.content)
        names[piece.name] = None
    return tuple(names)


async def _add_stream(admin: Bus, name: str, writer: Writer, tell: Tell) -> Contained | None:
    """None where there is no such stream: it may be of a newer version than the store."""
    try:
        async with snapshot(admin, name) as taken:
            await asyncio.to_thread(writer.add, f"{STREAMS}/{name}/{ABOUT}", msgspec.json.encode(taken.about))
            parts = _Parts(writer, name)
            async for chunk in taken.chunks:
                await parts.add(chunk)
                tell(name, parts.bytes, taken.about.state.bytes)
            await parts.finish()
            return contained(taken.about, parts.bytes)
    except ApiError as error:
        if error.number != STREAM_NOT_FOUND:
            raise
        logger.warning("there is no stream %s: the backup is without it", name)
        return None


class _Parts:
    """A stream's chunks as members of some megabytes each."""

    def __init__(self, writer: Writer, stream: str) -> None:
        self._writer = writer
        self._stream = stream
        self._waiting = bytearray()
        self._number = 0
        self.bytes = 0

    async def add(self, chunk: bytes) -> None:
        self._waiting += chunk
        self.bytes += len(chunk)
        if len(self._waiting) >= PART_BYTES:
            await self.finish()

    async def finish(self) -> None:
        if self._waiting:
            self._number += 1
            part, self._waiting = bytes(self._waiting), bytearray()
            await asyncio.to_thread(self._writer.add, f"{STREAMS}/{self._stream}/{self._number:08}", part)


def contained(about: About, size: int) -> Contained:
    state = about.state
    return Contained(
        stream=about.config["name"],
        messages=state.messages,
        first_sequence=state.first_seq,
        last_sequence=state.last_seq,
        bytes=size,
    )
