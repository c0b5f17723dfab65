"""Events of another log into the archive: in order, each once, whatever happens on the way."""

import asyncio
from collections.abc import Sequence

from contracts import codec, subjects
from contracts.archives import ID_HEADER, SEQUENCE_HEADER, STORED_AT_HEADER, Imported
from contracts.chain import Message
from contracts.errors import Conflict, Unavailable
from contracts.streams import ARCHIVE_STREAM
from infra.blobs import batch
from infra.blobs.batch import MAX_BYTES, MAX_MESSAGES, append_batch
from infra.blobs.errors import StoreFull
from infra.blobs.guarded import append_after
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.bus.publisher import EXPECTED_SEQUENCE, EXPECTED_SUBJECT, FIRST_PAUSE_S, LONGEST_PAUSE_S
from infra.log.archived_part import original


class ArchiveWriter:
    """Of one import. What an earlier life of it has stored is not stored again."""

    def __init__(self, bus: Bus, import_id: str) -> None:
        self._bus = bus
        self._import = import_id
        self._everything = subjects.archived(import_id, subjects.LOG)
        self._waiting: list[Message] = []
        self._size = 0
        self._place = 0
        """Of the last message of this import in the archive."""
        self._stored = 0
        """The sequence that it has in its own log."""

    async def open(self) -> None:
        """Raises `Unavailable`."""
        self._found(await self._last())

    async def _last(self) -> Entry | None:
        return await page.fetch_last(self._bus, self._everything, stream=ARCHIVE_STREAM)

    def _found(self, last: Entry | None) -> None:
        self._place = 0 if last is None else last.seq
        self._stored = 0 if last is None else original(last).seq

    async def add(self, message: Message) -> None:
        """Stored when `flush` has returned. Raises what `flush` raises."""
        if message.sequence <= self._stored:
            return
        self._waiting.append(message)
        self._size += len(message.payload)
        if len(self._waiting) == MAX_MESSAGES or self._size > MAX_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Raises `Conflict` when somebody else writes the same import meanwhile, `StoreFull`, `Denied`, `Invalid`."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        pause = FIRST_PAUSE_S
        while waiting:
            await self._bus.wait_connected()
            try:
                ack = await append_batch(self._bus, self._messages(waiting))
            except StoreFull:
                raise
            except Unavailable:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
                # It may have been stored all the same; then the guard would refuse it for ever.
                self._found(await reader.patiently(self._bus, lambda _: self._last()))
                waiting = [message for message in waiting if message.sequence > self._stored]
            else:
                self._place, self._stored = ack.seq, waiting[-1].sequence
                return

    def _messages(self, waiting: Sequence[Message]) -> list[batch.Message]:
        guard = {EXPECTED_SEQUENCE: str(self._place), EXPECTED_SUBJECT: self._everything}
        return [
            batch.Message(
                subjects.archived(self._import, message.subject),
                message.payload,
                headers=_headers(message) | ({} if number else guard),
            )
            for number, message in enumerate(waiting)
        ]

    async def places(self) -> tuple[int, int]:
        """Where the first and the last of it lie in the archive. Raises `Unavailable`."""
        first = await page.fetch(self._bus, self._everything, 1, limit=1, stream=ARCHIVE_STREAM)
        return first.entries[0].seq if first.entries else 0, self._place


async def newest_record(bus: Bus, sandbox: str) -> Entry | None:
    """Raises `Unavailable`."""
    return await page.fetch_last(bus, subjects.import_record(sandbox), stream=ARCHIVE_STREAM)


async def write_record(bus: Bus, record: Imported, after: int) -> None:
    """Makes the import seen, if `after` is still the last message that told of this sandbox.

    Raises `Conflict`, `Unavailable` (it may or may not be stored), `StoreFull`, `Denied`.
    """
    subject = subjects.import_record(record.sandbox)
    try:
        await append_after(bus, subject, codec.encode(record), after)
    except Conflict:
        raise Conflict(f"sandbox {record.sandbox!r} is imported by somebody else at this moment") from None


def _headers(message: Message) -> dict[str, str]:
    headers = {SEQUENCE_HEADER: str(message.sequence), STORED_AT_HEADER: message.stored_at}
    return headers | {ID_HEADER: message.id} if message.id else headers
