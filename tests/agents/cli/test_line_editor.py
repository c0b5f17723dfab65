"""Keys in, lines out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cli.agent_screen import window
from services.cli.line_editor import MOST, Leave, LineEditor
from tests.contracts.properties import calm


def typed(*keys: str | bytes) -> tuple[list[str | Leave], LineEditor]:
    editor = LineEditor()
    done: list[str | Leave] = []
    for key in keys:
        done += editor.feed(key.encode() if isinstance(key, str) else key)
    return done, editor


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("hello\r", "hello"),
        ("grüße\n", "grüße"),
        ("hxx\x7f\x7fi\r", "hi"),
        ("world\x01hello \x05!\r", "hello world!"),
        ("ac\x1b[Db\r", "abc"),
        ("ab\x1b[D\x1b[D\x1b[3~\r", "b"),
        ("ab\x1bOH>\x1bOF<\r", ">ab<"),
        ("one two\x17three\r", "one three"),
        ("one\x17two\r", "two"),
        ("wrong\x15right\r", "right"),
        ("keep this\x01\x06\x06\x06\x06\x0b\r", "keep"),
        ("a\x1b[5~b\x1b[1;5Cc\r", "abc"),
        ("\x1b\x1b[D\x02ok\r", "ok"),
        ("typo\x03fine\r", "fine"),
        ("x\x00\x1fy\r", "xy"),
    ],
)
def test_a_line_is_what_the_keys_make_of_it(keys: str, line: str) -> None:
    assert typed(keys)[0] == [line]
    assert typed(*(bytes([each]) for each in keys.encode()))[0] == [line], "byte by byte"


def test_up_and_down_walk_through_what_was_said_and_back_to_the_draft() -> None:
    done, editor = typed("one\r", "two\r", "dra", "\x1b[A")
    assert editor.text == "two"
    assert editor.feed(b"\x1b[A\x1b[A\x1b[A") == []
    assert editor.text == "one"
    editor.feed(b"\x1b[B\x1b[B")
    assert (editor.text, editor.cursor) == ("dra", 3)
    assert done == ["one", "two"]


def test_what_is_pasted_is_one_message_however_many_lines_it_has() -> None:
    done, editor = typed("\x1b[200~one\r\x03two\x1b[201~")
    assert (done, editor.text, editor.shown) == ([], "one\n\x03two", "one⏎·two")
    assert editor.feed(b"\r") == ["one\n\x03two"]


def test_one_leaves_from_an_empty_line_only() -> None:
    assert typed("\x03")[0] == [Leave.INTERRUPT]
    assert typed("\x04")[0] == [Leave.END]
    done, editor = typed("ab\x01\x04")
    assert (done, editor.text) == ([], "b")


@calm
@given(st.lists(st.binary(max_size=20), max_size=20))
def test_no_bytes_make_it_fail_or_show_what_could_move_a_cursor(chunks: list[bytes]) -> None:
    _, editor = typed(*chunks)
    assert 0 <= editor.cursor <= len(editor.text) <= MOST
    assert len(editor.shown) == len(editor.text)
    assert editor.shown.isprintable()


@calm
@given(st.text(st.characters(categories=["L", "N", "Zs"]), max_size=80), st.integers(0, 80), st.integers(10, 60))
def test_the_cursor_is_always_in_the_window(text: str, at: int, width: int) -> None:
    shown = window(text, min(at, len(text)), width)
    assert 0 <= shown.cursor < width


def test_a_line_that_is_too_long_shows_the_part_around_the_cursor() -> None:
    assert window("abc", 1, 10) == ("abc", 1)
    assert window("0123456789", 10, 6) == ("6789", 4)
    assert window("0123456789", 2, 6) == ("012345", 2)
    assert window("日本語日本語", 6, 6) == ("本語", 4)
