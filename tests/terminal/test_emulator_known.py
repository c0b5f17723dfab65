"""Sequences that programs write, and the screens that terminals show for them, written by hand."""

import itertools

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import Invalid
from infra.terminal import ansi
from infra.terminal.emulator import Emulator
from infra.terminal.style import TRUE_COLOUR, Style, rgb

SCREENS = {
    "text that wraps": (b"abcdefghijklm", ["abcdefghij", "klm", "", ""]),
    "a full line wraps only with the next character": (b"abcdefghij\r\nx", ["abcdefghij", "x", "", ""]),
    "line feeds keep the column": (b"ab\ncd\ne", ["ab", "  cd", "    e", ""]),
    "the top goes first": (b"1\r\n2\r\n3\r\n4\r\n5", ["2", "3", "4", "5"]),
    "a carriage return overwrites": (b"10%\r99%", ["99%", "", "", ""]),
    "backspace and tab": (b"abc\b\bX\tY", ["aXc     Y", "", "", ""]),
    "cursor addresses": (b"\x1b[3;4Hx\x1b[Hy\x1b[9;99Hz", ["y", "", "   x", "         z"]),
    "relative moves stay inside": (b"\x1b[9Aa\x1b[2Bb\x1b[99Dc\x1b[Ad", ["a", " d", "cb", ""]),
    "erasing a line": (b"abcdef\x1b[3D\x1b[K\r\nabcdef\x1b[3D\x1b[1K\r\nabc\x1b[2K", ["abc", "    ef", "", ""]),
    "erasing the screen": (b"a\r\nb\r\nc\x1b[2;1H\x1b[J!", ["a", "!", "", ""]),
    "erasing above": (b"ab\r\ncd\r\nef\x1b[2;1H\x1b[1J", ["", " d", "ef", ""]),
    "inserting characters": (b"abcdef\x1b[3G\x1b[2@", ["ab  cdef", "", "", ""]),
    "deleting characters": (b"abcdef\x1b[3G\x1b[2P", ["abef", "", "", ""]),
    "inserting and deleting lines": (b"a\r\nb\r\nc\x1b[2H\x1b[L\x1b[H\x1b[M", ["", "b", "c", ""]),
    "erasing characters": (b"abcdef\x1b[3G\x1b[2X", ["ab  ef", "", "", ""]),
    "a scrolling region": (b"a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3H\r\nX", ["a", "c", "X", "d"]),
    "reverse line feed in a region": (b"a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[2H\x1bMX", ["a", "X", "b", "d"]),
    "scrolling by request": (b"a\r\nb\r\nc\r\nd\x1b[2S\x1b[T", ["", "c", "d", ""]),
    "origin mode": (b"\x1b[2;3r\x1b[?6h\x1b[1;1Hx\x1b[9;1Hy\x1b[?6l\x1b[1;2Hz", [" z", "x", "y", ""]),
    "insert mode": (b"abc\r\x1b[4hXY\x1b[4l\r-", ["-Yabc", "", "", ""]),
    "no wrapping": (b"\x1b[?7labcdefghijklm", ["abcdefghim", "", "", ""]),
    "saved and restored": (b"ab\x1b7\x1b[4;1Hx\x1b8cd", ["abcd", "", "", "x"]),
    "lines drawn": (b"\x1b(0lqk\x1b(B\r\n\x1b)0\x0emqj\x0fq", ["┌─┐", "└─┘q", "", ""]),
    "a character repeated": (b"-\x1b[5b|", ["------|", "", "", ""]),
    "wide characters": ("漢字漢字漢x字".encode(), ["漢字漢字漢", "x字", "", ""]),
    "half of a wide character": ("漢字\x1b[2Gx".encode(), [" x字", "", "", ""]),
    "combining characters": ("e\u0301a\u0300\u0316x".encode(), ["éà\u0316x", "", "", ""]),
    "an invalid byte": (b"a\xffb\xc3", ["a\ufffdb", "", "", ""]),
    "the alternate screen and back": (b"main\x1b[?1049h\x1b[Halt\x1b[?1049lx", ["mainx", "", "", ""]),
    "the alternate screen": (b"main\x1b[?1049h\x1b[Halt", ["alt", "", "", ""]),
    "the old alternate screens": (b"main\x1b[?47ha\x1b[?47l\x1b[?1047hb\x1b[?1047lx", ["main  x", "", "", ""]),
    "a reset": (b"\x1b[31;2;3rabc\x1bcx", ["x", "", "", ""]),
    "a soft reset": (b"\x1b[2;3r\x1b[?6h\x1b[4h\x1b[!p\x1b[Hx", ["x", "", "", ""]),
    "what keys report is no style": (b"\x1b[>4;2mx\x1b[?4m", ["x", "", "", ""]),
    "strings nobody sees": (b"\x1bP+q544e\x1b\\a\x1b_x\x1b\\b\x1b]8;;x:y\x07c\x1bkt\x1b\\d", ["abcd", "", "", ""]),
    "a sequence that is cancelled": (b"\x1b[3\x18a\x1b[1\x1b[1mb\x1b[0m", ["a\x1b[0;1mb\x1b[0m", "", "", ""]),
    "a line feed within a sequence": (b"a\x1b[3\n1mb\x1b[m", ["a", " \x1b[0;31mb\x1b[0m", "", ""]),
    "controls in one character": ("a\x9b31mb\x9bm\x85c".encode(), ["a\x1b[0;31mb\x1b[0m", "c", "", ""]),
    "erased in colour": (b"\x1b[41m\x1b[K\x1b[m", ["\x1b[0;41m" + " " * 10 + "\x1b[0m", "", "", ""]),
    "blanks that are seen": (b"\x1b[4m  \x1b[m  ", ["\x1b[0;4m  \x1b[0m", "", "", ""]),
    "tabs that were set": (b"\x1b[3g\x1b[4G\x1bH\r\tx\x1b[Zy", ["   y", "", "", ""]),
    "nothing turns text around": ("a\u202eb\u2066c\u200bd\u2028e".encode(), ["abcde", "", "", ""]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCREENS)
def test_known_sequences_show_known_screens(name: str) -> None:
    output, expected = SCREENS[name]
    emulator = Emulator(10, 4)
    emulator.feed(output)
    assert emulator.lines() == expected
    assert emulator.faults == 0


STYLES = {
    "0": Style(),
    "": Style(),
    "1;2;3;4;5;7;9": Style(bold=True, dim=True, italic=True, underline=True, blink=True, reverse=True, strike=True),
    "1;2;22": Style(),
    "1;31;42": Style(bold=True, foreground=1, background=2),
    "97;100": Style(foreground=15, background=8),
    "38;5;200;4": Style(foreground=200, underline=True),
    "48;2;1;2;3;1": Style(background=TRUE_COLOUR | 0x010203, bold=True),
    "38:2::9:8:7": Style(foreground=TRUE_COLOUR | 0x090807),
    "38:2:9:8:7": Style(foreground=TRUE_COLOUR | 0x090807),
    "48:5:17": Style(background=17),
    "58;2;1;2;3;3": Style(italic=True),
    "4:3": Style(underline=True),
    "4;4:0": Style(),
    "38;5;999": Style(),
    "38;2;300;0;0": Style(),
    "38;5": Style(foreground=0),
    "31;39": Style(),
    "41;49": Style(),
    "4242;77": Style(),
}


@pytest.mark.parametrize("parameters", STYLES)
def test_styles_are_understood_and_told_again(parameters: str) -> None:
    first, second = Emulator(10, 2), Emulator(10, 2)
    first.feed(f"\x1b[{parameters}mx".encode())
    assert first.spans()[0] == [("x", STYLES[parameters])]
    second.feed(first.lines()[0].encode())
    assert second.spans() == first.spans()


def test_colours_have_their_red_green_and_blue() -> None:
    assert [rgb(each) for each in (-1, 1, 16, 21, 231, 232, 255)] == [
        None, 0xCD0000, 0, 0x0000FF, 0xFFFFFF, 0x080808, 0xEEEEEE,
    ]  # fmt: skip
    assert rgb(TRUE_COLOUR | 0x123456) == 0x123456


def test_lines_that_left_the_screen_are_above_it_and_only_so_many() -> None:
    emulator = Emulator(10, 2, scrollback=3)
    emulator.feed(b"".join(b"\x1b[3%dm%d\x1b[m\r\n" % (line % 8, line) for line in range(9)))
    assert emulator.scrollback() == [f"\x1b[0;3{line}m{line}\x1b[0m" for line in (5, 6, 7)]
    assert emulator.scrollback(1) == ["\x1b[0;37m7\x1b[0m"]
    assert emulator.scrollback(0) == []
    emulator.feed(b"\x1b[?1049h1\r\n2\r\n3\r\n4")
    assert len(emulator.scrollback()) == 3
    emulator.feed(b"\x1b[?1049l\x1b[3J")
    assert emulator.scrollback() == []


def test_a_size_that_changes_keeps_what_it_can() -> None:
    emulator = Emulator(10, 4)
    emulator.feed("1\r\n2\r\n3漢字漢字\r\n4".encode())
    emulator.resize(4, 2)
    assert (emulator.lines(), emulator.scrollback()) == (["3漢", "4"], ["1", "2"])
    emulator.resize(20, 5)
    assert emulator.lines() == ["3漢", "4", "", "", ""]
    emulator.feed(b"\tx")
    assert emulator.lines()[1] == "4       x"
    emulator.feed(b"\x1b[?1049h\x1b[2J\x1b[Halt")
    emulator.resize(3, 1)
    assert emulator.lines() == ["alt"]
    emulator.feed(b"\x1b[?1049l")
    assert len(emulator.lines()) == 1


@pytest.mark.parametrize(("cols", "rows"), [(0, 0), (-5, -5), (10**6, 10**6), (1, 1)])
def test_no_size_is_too_strange(cols: int, rows: int) -> None:
    emulator = Emulator(20, 5)
    emulator.feed("漢a".encode() * 20)
    emulator.resize(cols, rows)
    emulator.feed("漢a\r\n".encode() * 20 + b"\x1b[2;1H\x1b[5L\x1b[5P\x1b[5@\x1b[2;3r\x1bM\x1bD\x1b[99S")
    assert (emulator.cols, emulator.rows) == (max(1, min(cols, 1000)), max(1, min(rows, 1000)))
    assert len(emulator.lines()) == emulator.rows
    assert emulator.faults == 0


def test_titles_are_bounded_and_printable() -> None:
    emulator = Emulator(10, 2)
    emulator.feed(b"\x1b]0;first\x07\x1b]2;a\x01b" + "\u202ec".encode() + b"x" * 100_000 + b"\x1b\\y")
    assert emulator.title.startswith("abcxxx")
    assert len(emulator.title) <= 200
    emulator.feed(b"\x1b]0;" + b"endless" * 100_000)
    assert emulator.lines() == ["y", ""]
    assert len(emulator._parser.partial.string) <= 1024


def test_marks_of_one_cell_are_bounded() -> None:
    emulator = Emulator(10, 2)
    emulator.feed(b"z" + "\u0300".encode() * 10_000)
    assert len(emulator.lines()[0]) <= 10


def test_a_line_of_many_megabytes_leaves_its_end() -> None:
    emulator = Emulator(80, 3, scrollback=5)
    piece = bytes(range(0x30, 0x3A)) * 100_000
    for _ in range(20):
        emulator.feed(piece)
    assert sum(map(len, emulator._waiting)) < 3_000_000
    emulator.feed(b"!")
    assert emulator.lines() == [piece[:80].decode(), piece[:80].decode(), "!"]
    assert [len(line) for line in emulator.scrollback()] == [80] * 5


def test_questions_to_the_terminal_are_not_answered() -> None:
    emulator = Emulator(10, 2)
    emulator.feed(b"\x1b[6n\x1b[c\x1b[5n\x1b[>c\x1b[?6n\x05\x1bZ\x1b[21t\x1b]10;?\x07")
    assert emulator.lines() == ["", ""]


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_what_is_no_dump_is_refused(damage: bytes) -> None:
    with pytest.raises(Invalid):
        Emulator.load(damage)
    whole = Emulator(10, 2).dump()
    with pytest.raises(Invalid):
        Emulator.load(whole[:-3])


COMMON = st.sampled_from(
    ["hello", "x" * 13, "\r\n", "\r\n", "\r", "\b", "\x1b[H", "\x1b[2;3H", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[2J",
     "\x1b[A", "\x1b[2C", "\x1b[D", "\x1b[4G", "\x1b[2d", "\x1b[2P", "\x1b[3X", "\x1b[L", "\x1bM", "\t", "é"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(COMMON, max_size=30))
def test_what_every_terminal_knows_is_shown_as_pyte_shows_it(pieces: list[str]) -> None:
    emulator = Emulator(10, 4)
    screen = pyte.Screen(10, 4)
    stream = pyte.Stream(screen)
    # pyte lets the cursor stand beyond the last column where others do not, so each piece begins elsewhere.
    for piece in itertools.chain.from_iterable((piece, "\x1b[3D\x1b[3C") for piece in pieces):
        emulator.feed(piece.encode())
        stream.feed(piece)
    assert [ansi.plain(spans) for spans in emulator.spans()] == [line.rstrip() for line in screen.display]
    assert (emulator.cursor.x, emulator.cursor.y) == (screen.cursor.x, screen.cursor.y)
