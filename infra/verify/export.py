"""An export against its proof: a file, and nothing else."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from contracts.chain import Fault, Message
from contracts.errors import Invalid
from contracts.exports import End, Header, Piece
from contracts.pieces import Pieces
from contracts.verifying import Scope, Trust, Verdict, Verifier
from infra.audit import signing
from infra.export import reading

EVERY = 500
Tell = Callable[[str, int, int], None]
"""What is looked at, how far it has come, and how far it has to go."""


def verify_export(file: Path, trust: Trust, tell: Tell, *, blobs: bool = True) -> Verdict:
    """In flat memory, however large it is. Raises `Invalid` for a file that is no export."""
    with reading.opened(file) as stream:
        return _Reading(stream, trust, tell, with_blobs=blobs).run()


class _Reading:
    def __init__(self, stream: BinaryIO, trust: Trust, tell: Tell, *, with_blobs: bool) -> None:
        self._lines = reading.lines(stream)
        self._tell = tell
        self._with_blobs = with_blobs
        self._header = header = reading.header_of(self._lines)
        self._verifier = Verifier(signing.verify, _scope_of(header), trust)
        self._pieces = Pieces(self._verifier.names)
        self._events = 0
        self._end: End | None = None

    def run(self) -> Verdict:
        for line in self._lines:
            if isinstance(line, Message):
                self._message(line)
            elif self._end is not None:
                self._verifier.unreadable("something stands after the end of the export")
                break
            elif isinstance(line, Piece):
                self._piece(line)
            elif isinstance(line, End):
                self._end = line
            elif isinstance(line, Header):
                self._verifier.unreadable("a second header")
            else:
                self._verifier.unreadable(f"line {line.line}: {line.detail}")
        self._close()
        return self._verifier.finish(self._contents())

    def _message(self, message: Message) -> None:
        if self._end is not None or self._pieces.count:
            self._verifier.unreadable(f"sequence {message.sequence} stands after the events")
        self._verifier.feed(message)
        self._events += 1
        if self._events % EVERY == 0:
            scope = self._verifier.scope
            self._tell("events", message.sequence - scope.first + 1, scope.last - scope.first + 1)

    def _piece(self, piece: Piece) -> None:
        if self._with_blobs:
            self._pieces.feed(piece)
            if piece.last:
                self._tell("contents", self._pieces.count, len(self._verifier.names))

    def _close(self) -> None:
        verifier, end = self._verifier, self._end
        if end is None:
            verifier.findings.add(verifier.last + 1, Fault.TRUNCATED, "the file was cut off: it has no last line")
        elif end.events != self._events:
            detail = f"the file says that it has {end.events} events, and has {self._events}"
            verifier.findings.add(verifier.last + 1, Fault.TRUNCATED, detail)

    def _contents(self) -> int:
        self._pieces.close()
        # A file that was cut off before them is told to be so, and not at the first event that names one.
        is_without = not self._pieces.count and (self._end is None or self._end.blobs == 0)
        if not self._with_blobs or is_without:
            return -1
        if self._header.continued:
            self._count_contents()
        return self._verifier.names.close(lacking=not self._header.continued)

    def _count_contents(self) -> None:
        """An earlier file may have what is named and not there: only by their number is one known to be gone."""
        verifier, end = self._verifier, self._end
        if end is not None and end.blobs != self._pieces.count:
            detail = f"the file says that it has {end.blobs} contents, and has {self._pieces.count}"
            verifier.findings.add(verifier.last, Fault.BLOB_MISSING, detail)


def _scope_of(header: Header) -> Scope:
    if header.last_sequence < max(header.first_sequence, 1):
        raise Invalid(f"an export of nothing: it says that it is of {header.first_sequence} to {header.last_sequence}")
    return Scope(header.sandbox, header.log, max(header.first_sequence, 1), header.last_sequence, header.exported_at)
