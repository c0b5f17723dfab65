"""What holds of the terminal whatever is written to it."""

import re
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from infra.terminal.emulator import Emulator
from infra.terminal.widths import WIDE, width
from tests.terminal.nasty import BULK, OUTPUT, SIZES

MANY = settings(max_examples=100, deadline=None)
LINE = re.compile(r"(?:[^\x00-\x1f\x7f-\x9f]|\x1b\[[0-9;]*m)*")


def seen(emulator: Emulator) -> tuple[object, ...]:
    return (
        emulator.cols,
        emulator.rows,
        emulator.lines(),
        emulator.scrollback(),
        emulator.cursor,
        emulator.title,
        emulator.alternate,
        emulator.dump(),
    )


def fed(size: tuple[int, int], *pieces: bytes, scrollback: int = 7, backlog: int = 1_000_000) -> Emulator:
    emulator = Emulator(*size, scrollback, backlog=backlog)
    for piece in pieces:
        emulator.feed(piece)
    return emulator


def pairs_are_whole(cells: list[str]) -> bool:
    """Wide characters have their two cells, and nothing else has an empty one."""
    return all((width(cell[:1] or "a") == WIDE) == (after == "") for cell, after in pairwise(["a", *cells, "a"]))


@MANY
@given(SIZES, OUTPUT, OUTPUT)
@example((5, 3), b"\xe6\xbc", b"\xa2\x1b[31")
@example((5, 3), b"\x1b]0;ti", b"tle\x07x")
def test_a_terminal_that_was_dumped_and_loaded_goes_on_as_if_it_had_not_been(
    size: tuple[int, int], before: bytes, after: bytes
) -> None:
    first = fed(size, before)
    loaded = Emulator.load(first.dump())
    assert seen(loaded) == seen(first)
    loaded.feed(after)
    assert seen(loaded) == seen(fed(size, before + after))


@MANY
@given(SIZES, OUTPUT, st.data())
def test_it_does_not_matter_how_the_output_was_cut(size: tuple[int, int], output: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=5)))
    pieces = [output[start:end] for start, end in pairwise([0, *cuts, len(output)])]
    assert seen(fed(size, *pieces)) == seen(fed(size, output))
    assert seen(fed(size, *(bytes([byte]) for byte in output))) == seen(fed(size, output))


def numbered(count: int) -> bytes:
    return b"".join(b"%d\r\n" % line for line in range(count))


@MANY
@given(SIZES, st.lists(st.one_of(BULK, BULK, OUTPUT), max_size=6), st.integers(0, 7))
@example((9, 3), [b"\x1b[2;5H", numbered(20), b"down\n" * 20], 2)
@example((9, 6), [b"top\r\n\x1b[2;4r", numbered(60)], 2)
@example((9, 3), [b"\x1b[4h", numbered(30), b"abc\rx"], 2)
@example((9, 3), [b"\x1b[4h", b"0123456789" * 99, b"\rx"], 2)
@example((9, 3), [b"\x1b[31mred\r\n", numbered(9), b"\x1b[44m\x1b[?25l", numbered(90)], 2)
@example((9, 3), [b"\x1b[0m\x1b[?25l" + numbered(9) + b"\x1b[1m\x1b[?25h", numbered(90)], 2)
@example((9, 3), [b"\x1b(0", b"q\r\n" * 10 + b"\x1b(B" + b"q\r\n" * 90, b"q"], 2)
@example((9, 3), [b"abc", b"0123456789" * 100, b"y"], 2)
@example((9, 3), [b"\x1b[?7l", b"0123456789" * 100, b"y"], 2)
@example((9, 3), [b"\x1b[2;3r", b"0123456789" * 100, b"y"], 2)
@example((9, 3), [numbered(9), b"\x1b[?1049h", numbered(60), b"\x1b[?1049l"], 2)
def test_bulk_text_that_is_passed_over_leaves_what_drawing_it_would_have_left(
    size: tuple[int, int], pieces: list[bytes], scrollback: int
) -> None:
    plainly = Emulator(*size, scrollback, backlog=10**9)
    for piece in pieces:
        for byte in piece:
            plainly.feed(bytes([byte]))
            plainly.cursor  # noqa: B018  somebody looks, so it is drawn
    assert seen(fed(size, *pieces, scrollback=scrollback, backlog=10)) == seen(plainly)
    assert seen(fed(size, *pieces, scrollback=scrollback, backlog=300)) == seen(plainly)


@MANY
@given(SIZES, st.lists(st.tuples(OUTPUT, st.tuples(st.integers(-3, 15), st.integers(-3, 15))), max_size=5))
def test_nothing_but_text_and_styles_comes_out_and_it_fits(
    size: tuple[int, int], pieces: list[tuple[bytes, tuple[int, int]]]
) -> None:
    emulator = Emulator(*size, 7)
    for output, (cols, rows) in pieces:
        emulator.feed(output)
        emulator.resize(cols, rows)
    assert len(emulator.lines()) == emulator.rows
    assert all(LINE.fullmatch(line) for line in emulator.lines() + emulator.scrollback())
    assert all(len(row.text) == len(row.styles) <= emulator.cols for row in emulator._grid.rows)
    assert all(pairs_are_whole(row.text) for row in [*emulator._grid.rows, *emulator._grid.above])
    assert len(emulator.scrollback()) <= 7
    assert 0 <= emulator.cursor.x < emulator.cols
    assert 0 <= emulator.cursor.y < emulator.rows
    assert emulator.title.isprintable()
    assert emulator.faults == 0
    assert seen(Emulator.load(emulator.dump())) == seen(emulator)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=2000))
def test_random_bytes_do_no_harm(output: bytes) -> None:
    emulator = fed((10, 4), output)
    assert all(LINE.fullmatch(line) for line in emulator.lines() + emulator.scrollback())
    assert emulator.faults == 0
