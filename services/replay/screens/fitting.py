"""An answer about a screen that fits into one message."""

from collections.abc import Sequence
from typing import NamedTuple

from contracts import codec
from infra.terminal import ansi
from infra.terminal.emulator import Emulator
from services.replay.projection import PAGE_BYTES


class Fitted(NamedTuple):
    lines: list[str]
    whole: bool
    """With their styles, and to their ends."""


def fitting_lines(emulator: Emulator) -> Fitted:
    """All of the screen's lines: without their styles, and cut, where they are too much."""
    lines = emulator.lines()
    if _size(lines) <= PAGE_BYTES:
        return Fitted(lines, True)
    lines = [ansi.plain(spans) for spans in emulator.spans()]
    room = PAGE_BYTES // len(lines)
    return Fitted(lines if _size(lines) <= PAGE_BYTES else [_cut(line, room) for line in lines], False)


def newest_that_fit(lines: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The last of them, as many as there is room for beside others."""
    room = PAGE_BYTES - _size(taken)
    kept: list[str] = []
    for line in reversed(lines):
        room -= _length(line)
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]


def _size(lines: Sequence[str]) -> int:
    return sum(map(_length, lines))


def _length(line: str) -> int:
    return len(codec.encode(line)) + 1


def _cut(line: str, room: int) -> str:
    # Two quotes and a comma; a plain character takes four bytes at most.
    return line if _length(line) <= room else line[: (room - 4) // 4]
