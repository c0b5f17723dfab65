"""What the player of a page is told, put together again as its script does."""

import datetime
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from contracts.tape import Frame, FrameKind
from infra.export.page.frames import TOGETHER_MS, Frames
from infra.export.page.records import Record
from infra.terminal.emulator import Emulator
from tests.terminal.nasty import BULK, OUTPUT
from tests.terminal.test_emulator_always import MANY

TIME = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SCROLLING = [b"line %d\r\n" % number for number in range(60)]


def applied(lines: list[list[Any]], record: Record) -> list[list[Any]]:
    kind, _, _, *rest = record
    if kind == "key":
        return list(rest[2])
    changed, *_, scrolled = rest
    lines = [*lines[scrolled:], *([] for _ in range(scrolled))]
    for row, line in changed:
        lines[row] = line
    return lines


def texts(lines: list[list[Any]]) -> list[str]:
    return ["".join(line[::2]) for line in lines]


@MANY
@given(st.lists(OUTPUT | BULK, max_size=20))
@example(SCROLLING)
def test_the_frames_of_a_page_show_what_the_terminal_showed(outputs: list[bytes]) -> None:
    frames, emulator, lines = Frames(), Emulator(scrollback=0), list[list[Any]]()
    for number, data in enumerate(outputs):
        at_ms = number * TOGETHER_MS
        for record in frames.feed(at_ms, Frame(number, TIME, FrameKind.OUTPUT, "e", data)):
            lines = applied(lines, record) if record[0] != "style" else lines
        if number:
            assert texts(lines) == ["".join(span.text for span in spans) for spans in emulator.spans()]
        emulator.feed(data)
    for record in frames.close():
        lines = applied(lines, record) if record[0] != "style" else lines
    assert not outputs or texts(lines) == ["".join(span.text for span in spans) for spans in emulator.spans()]


def test_what_scrolls_is_told_by_its_new_lines() -> None:
    frames = Frames()
    told = [
        record
        for number, data in enumerate(SCROLLING)
        for record in frames.feed(number * TOGETHER_MS, Frame(number, TIME, FrameKind.OUTPUT, "e", data))
    ]
    assert max(len(record[3]) for record in told if record[0] == "frame") <= 2
