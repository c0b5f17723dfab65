"""Where output is cut into frames. Pure: time comes in as an argument, in seconds."""

import codecs
from typing import NamedTuple

from infra.keeper.frame import MAX_PAYLOAD, Kind

GATHER_S = 0.010
FRAMES_PER_WINDOW = 16


class Cut(NamedTuple):
    kind: Kind
    payload: bytes


def incomplete_tail(data: bytes | bytearray) -> int:
    """How many bytes at the end (0 to 3) begin a UTF-8 character that is not whole yet."""
    for size in range(1, min(3, len(data)) + 1):
        if data[-size] >= 0xC0:
            return _unfinished(bytes(data[-size:]))
        if data[-size] < 0x80:
            return 0
    return 0


def _unfinished(tail: bytes) -> int:
    if tail[0] == 0xED and tail[1:2] >= b"\xa0":
        return 0  # half a surrogate: Python waits for its third byte, though none can make it a character
    try:
        _, consumed = codecs.utf_8_decode(tail, "strict", False)
    except UnicodeDecodeError:
        return 0
    return len(tail) - consumed


class _Gathered:
    def __init__(self) -> None:
        self.data = bytearray()
        self.ticks_held = 0


class Framer:
    """The first output after a silence goes at once; then it is gathered for 10 ms or up to 64 KiB.

    What comes out, joined, is what went in. At most 64 KiB are held per stream.
    """

    def __init__(self) -> None:
        self._streams: dict[Kind, _Gathered] = {}
        self._last = float("-inf")
        self._window = float("-inf")
        self._frames = 0

    def room(self, kind: Kind) -> int:
        """How much the next `feed` of this stream may bring."""
        gathered = self._streams.get(kind)
        return MAX_PAYLOAD - (len(gathered.data) if gathered else 0)

    @property
    def deadline(self) -> float | None:
        """When `tick` is wanted; None while nothing is held."""
        return self._last + GATHER_S if self._streams else None

    def feed(self, kind: Kind, data: bytes, now: float) -> list[Cut]:
        cuts = self._switch_to(kind, now)
        silence = now - self._last >= GATHER_S
        gathered = self._streams.setdefault(kind, _Gathered())
        gathered.data += data
        gathered.ticks_held = 0
        if silence or len(gathered.data) >= MAX_PAYLOAD:
            cuts += self._cut(kind, now)
        return cuts

    def tick(self, now: float) -> list[Cut]:
        """Flushes what is held; half a character goes at the second tick only."""
        cuts: list[Cut] = []
        for kind in list(self._streams):
            self._streams[kind].ticks_held += 1
            cuts += self._cut(kind, now, force=self._streams[kind].ticks_held > 1)
        self._last = now
        return cuts

    def flush(self, now: float) -> list[Cut]:
        """Everything that is held, half characters too."""
        return [cut for kind in list(self._streams) for cut in self._cut(kind, now, force=True)]

    def end(self, kind: Kind, now: float) -> list[Cut]:
        return self._cut(kind, now, force=True)

    def _switch_to(self, kind: Kind, now: float) -> list[Cut]:
        if now - self._window >= GATHER_S:
            self._window, self._frames = now, 0
        cuts: list[Cut] = []
        for other in [each for each in self._streams if each != kind]:
            if self._frames < FRAMES_PER_WINDOW:
                cuts += self._cut(other, now)
        return cuts

    def _cut(self, kind: Kind, now: float, *, force: bool = False) -> list[Cut]:
        gathered = self._streams.get(kind)
        if gathered is None:
            return []
        keep = 0 if force else incomplete_tail(gathered.data)
        whole = bytes(gathered.data[: len(gathered.data) - keep])
        if not whole:
            return []
        del gathered.data[: len(whole)]
        if not gathered.data:
            del self._streams[kind]
        self._last = now
        self._frames += 1
        return [Cut(kind, whole)]
