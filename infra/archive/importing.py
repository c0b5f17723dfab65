"""A file of another Cloche on its way into the archive. Whoever made it is not trusted with anything."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from contracts import codec, subjects
from contracts.archives import MOST_PARTS, Imported, ImportedPart, import_id
from contracts.chain import Message
from contracts.errors import Conflict, Invalid
from contracts.exports import MOST_LINE_BYTES, End, Header, Line, Piece, decode_line
from contracts.streams import SANDBOXES_BUCKET
from infra import clock
from infra.archive.contents import ContentsIn
from infra.archive.writer import ArchiveWriter, newest_record, write_record
from infra.blobs.blobs import Blobs
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.kv import Bucket
from infra.log.imports import record_of

MOST_SANDBOXES = 100_000
"""In one file."""
PROOFS = frozenset({"audit.checkpoint", "audit.rotated"})
"""What a file of one sandbox may have besides that sandbox's own events."""


class _Tally:
    """What the file has of one sandbox."""

    def __init__(self, sequence: int, known: Sequence[ImportedPart]) -> None:
        self.first = self.last = sequence
        self.new = 0
        """Events that can not be read yet."""
        self._known = known

    def add(self, sequence: int) -> None:
        self.last = sequence
        self.new += not any(part.first_sequence <= sequence <= part.last_sequence for part in self._known)


class _Window(NamedTuple):
    first: int
    last: int


def outside(window: _Window, known: Sequence[ImportedPart]) -> list[_Window]:
    """What is left of a window where parts are that do not overlap, in their order."""
    left, begin = list[_Window](), window.first
    for part in known:
        if begin < part.first_sequence:
            left.append(_Window(begin, min(window.last, part.first_sequence - 1)))
        begin = max(begin, part.last_sequence + 1)
    left.append(_Window(begin, window.last))
    return [each for each in left if each.first <= each.last]


class Importing:
    """Everything that is wrong with the file raises `Invalid` with the line, and nothing of it will be seen.

    Raises besides: `Conflict` for a sandbox that is here already, `StoreFull`, `Unavailable`.
    """

    def __init__(self, bus: Bus, blobs: Blobs, name: str) -> None:
        self._bus = bus
        self._name = name
        self._writer = ArchiveWriter(bus, name)
        self._contents = ContentsIn(blobs)
        self._hash = hashlib.sha256()
        self._rest = b""
        self._lines = 0
        self._header: Header | None = None
        self._end: End | None = None
        self._first = 0
        self._last = 0
        self._tallies: dict[str, _Tally] = {}
        self.events = 0

    @property
    def blobs(self) -> int:
        return self._contents.count

    @property
    def sandboxes(self) -> list[str]:
        return list(self._tallies)

    async def aclose(self) -> None:
        await self._contents.aclose()

    async def feed(self, data: bytes) -> None:
        """The next bytes of the file."""
        self._hash.update(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._lines += 1
            self._refuse_long(line)
            try:
                await self._line(decode_line(line))
            except Conflict:
                raise
            except Invalid as error:
                raise Invalid(f"line {self._lines}: {error.message}") from error
        self._refuse_long(self._rest)
        await self._writer.flush()
        await self._contents.flush()

    def _refuse_long(self, line: bytes) -> None:
        if len(line) > MOST_LINE_BYTES:
            raise Invalid(f"line {self._lines} is longer than {MOST_LINE_BYTES} bytes")

    async def finish(self) -> None:
        """That was all: from here on it can be read. The same again does no harm."""
        if self._header is None:
            raise Invalid("this is no export of Cloche; `cloche export SANDBOX --format jsonl` makes one")
        if self._end is None or self._rest:
            raise Invalid("the file was cut off: it has no last line")
        if import_id(self._hash.hexdigest()) != self._name:
            raise Invalid("this is not the file that was announced")
        places = await self._writer.places()
        for sandbox, tally in self._tallies.items():
            # Nobody waits twice for what an earlier attempt has recorded: a file may have 100,000 sandboxes.
            if tally.new:
                await self._record(sandbox, tally, places)

    async def _line(self, line: Line) -> None:
        if self._end is not None:
            raise Invalid("there is something after the end")
        if isinstance(line, Header) != (self._header is None):
            raise Invalid("an export has its header in its first line, and only there")
        match line:
            case Header():
                self._header = line
                await self._writer.open()
            case Message():
                await self._message(line)
            case Piece():
                await self._contents.add(line)
            case End():
                self._finish_lines(line)

    async def _message(self, message: Message) -> None:
        if self.blobs or not self._contents.is_whole:
            raise Invalid("an event after the contents")
        if message.sequence <= self._last:
            raise Invalid(f"sequence {message.sequence} comes after {self._last}")
        await self._admit(message)
        self._first = self._first or message.sequence
        self._last = message.sequence
        self.events += 1
        await self._writer.add(message)

    async def _admit(self, message: Message) -> None:
        sandbox, header = subjects.parse_event(message.subject).sandbox, self._header
        _check_envelope(message, sandbox)
        if sandbox == subjects.NO_SANDBOX:
            tag = ".".join(message.subject.split(".")[3:5])
            if header and header.sandbox is not None and tag not in PROOFS:
                raise Invalid(f"{message.subject} does not belong to sandbox {header.sandbox!r}")
            return
        if header and header.sandbox not in (None, sandbox):
            raise Invalid(f"{message.subject} does not belong to sandbox {header.sandbox!r}")
        if sandbox not in self._tallies:
            self._tallies[sandbox] = await self._meet(sandbox, message.sequence)
        self._tallies[sandbox].add(message.sequence)

    async def _meet(self, sandbox: str, sequence: int) -> _Tally:
        """The first event of a sandbox."""
        if len(self._tallies) >= MOST_SANDBOXES:
            raise Invalid(f"more than {MOST_SANDBOXES} sandboxes in one file")
        await self._refuse_known(sandbox)
        _, earlier = await self._earlier(sandbox)
        return _Tally(sequence, earlier.parts if earlier else ())

    async def _refuse_known(self, sandbox: str) -> None:
        own = await reader.last(self._bus, subjects.lifecycle(sandbox))
        if own is not None or await Bucket(self._bus, SANDBOXES_BUCKET).get(sandbox) is not None:
            raise Conflict(f"sandbox {sandbox!r} is one of this Cloche: another of that name cannot be imported")

    async def _earlier(self, sandbox: str) -> tuple[int, Imported | None]:
        """The record of an earlier import of the same sandbox, and where it is. Raises `Conflict` for another one."""
        found = await newest_record(self._bus, sandbox)
        earlier = None if found is None else record_of(found)
        log = self._header.log if self._header else ""
        known = earlier is not None and self._name in {part.import_id for part in earlier.parts}
        if earlier and not known and (earlier.log != log or not log):
            of = f" (log {earlier.log})" if earlier.log else ""
            raise Conflict(f"another sandbox {sandbox!r} has been imported already, from another log{of}")
        return (0 if found is None else found.seq), earlier

    def _finish_lines(self, end: End) -> None:
        if not self._contents.is_whole:
            raise Invalid("a content is not whole")
        if (end.events, end.blobs) != (self.events, self.blobs):
            raise Invalid(f"{self.events} events and {self.blobs} contents came, not {end.events} and {end.blobs}")
        if not self._tallies:
            raise Invalid("there is no sandbox in it")
        self._end = end

    async def _record(self, sandbox: str, tally: _Tally, places: tuple[int, int]) -> None:
        await self._refuse_known(sandbox)
        after, earlier = await self._earlier(sandbox)
        known = earlier.parts if earlier else ()
        windows = outside(_Window(tally.first, tally.last), known)
        if self._name in {part.import_id for part in known} or not windows:
            # All that this one has can be read already.
            return
        parts = sorted((*known, *(self._part(each, places) for each in windows)), key=lambda part: part.first_sequence)
        if len(parts) > MOST_PARTS:
            raise Invalid(f"sandbox {sandbox!r} is in {MOST_PARTS} parts already: export it in one piece")
        record = Imported(
            sandbox=sandbox,
            log=self._header.log if self._header else "",
            events=tally.new + (earlier.events if earlier else 0),
            parts=tuple(parts),
            imported_at=clock.now(),
        )
        await write_record(self._bus, record, after)

    def _part(self, window: _Window, places: tuple[int, int]) -> ImportedPart:
        return ImportedPart(
            import_id=self._name,
            first_sequence=window.first,
            last_sequence=window.last,
            first_imported=self._first,
            last_imported=self._last,
            archived_first=places[0],
            archived_last=places[1],
        )


def _check_envelope(message: Message, sandbox: str) -> None:
    """What can be read must be about the sandbox that the subject names: readers go by either."""
    try:
        head = codec.decode_head(message.payload)
    except Invalid:
        return
    if sandbox != subjects.NO_SANDBOX and head.sandboxid != sandbox:
        raise Invalid(f"sequence {message.sequence}: an event of {head.sandboxid[:80]!r} on {message.subject}")
