"""One stream of a command as a row of bytes, found in the log by its offsets."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from contracts import codec, subjects
from contracts.events import command as facts
from contracts.http.commands import CommandDetail
from contracts.payload import unpack
from infra.bus.page import Entry
from infra.log.view import LogView

FIRST_LOOK_BACK = 256
STEPS = 8
"""Over entries of the other stream, one by one, before they are read by pages."""
CLOSE = 64
"""Sequences that are sooner read than searched."""


class _Piece(NamedTuple):
    sequence: int
    offset: int
    end: int
    fact: facts.CommandOutput | facts.CommandInput


class Written:
    def __init__(self, view: LogView, detail: CommandDetail, stream: facts.Stream) -> None:
        self._view = view
        self._detail = detail
        self._stream = stream
        kind = "command.input" if stream == facts.Stream.STDIN else "command.output"
        self._subject = subjects.event(detail.sandbox, kind, detail.exec)
        self._last = 0

    async def size(self) -> int:
        """Of what the log has now; `cut` is for that. Raises `Unavailable`."""
        newest = await self._view.last(self._subject)
        if newest is None:
            return 0
        self._last = newest.seq
        if (piece := self._piece(newest)) is not None:
            return piece.end
        if self._detail.totals is not None and newest.seq < self._detail.last_sequence:
            return int(getattr(self._detail.totals, self._stream))
        return await self._look_back()

    async def _look_back(self) -> int:
        """The other stream wrote last."""
        span = FIRST_LOOK_BACK
        while True:
            start = max(self._detail.first_sequence, self._last - span)
            end: int | None = None
            async for piece in self._pieces(start):
                end = piece.end
            if end is not None or start == self._detail.first_sequence:
                return end or 0
            span *= 4

    async def cut(self, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes between two offsets, as they lie in the log. Raises `Unavailable`."""
        if start >= end:
            return
        async for piece in self._pieces(await self._sequence_of(start)):
            if piece.end > start:
                data = unpack(piece.fact.data, piece.fact.encoding)
                yield data[max(start - piece.offset, 0) : end - piece.offset]
            if piece.end >= end:
                return

    async def _sequence_of(self, offset: int) -> int:
        """A sequence at or before the piece with that byte, and near it: halves the rest of the log each time."""
        low, high = self._detail.first_sequence, self._last
        if offset == 0:
            return low
        while high - low > CLOSE:
            middle = (low + high) // 2
            piece = await self._next(middle)
            if piece is None or piece.offset > offset:
                high = middle
            else:
                low = piece.sequence
        return low

    async def _next(self, start: int) -> _Piece | None:
        for _ in range(STEPS):
            entry = await self._view.first(self._subject, start=start)
            if entry is None or entry.seq > self._last:
                return None
            if (piece := self._piece(entry)) is not None:
                return piece
            start = entry.seq + 1
        async for piece in self._pieces(start):
            return piece
        return None

    async def _pieces(self, start: int) -> AsyncIterator[_Piece]:
        async for entry in self._view.read([self._subject], start, end=self._last):
            if (piece := self._piece(entry)) is not None:
                yield piece

    def _piece(self, entry: Entry) -> _Piece | None:
        """None for one of the other stream."""
        fact = codec.decode_fact(codec.decode_head(entry.data))
        if isinstance(fact, facts.CommandInput) and self._stream == facts.Stream.STDIN:
            return _Piece(entry.seq, fact.offset, fact.offset + fact.size, fact)
        if isinstance(fact, facts.CommandOutput) and fact.stream == self._stream:
            return _Piece(entry.seq, fact.offset, fact.offset + fact.size, fact)
        return None
