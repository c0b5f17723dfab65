"""The words of what a program wrote."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.terminal.plain import Plain
from tests.terminal.nasty import OUTPUT
from tests.terminal.test_emulator_always import MANY


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("\x1b[32mok\x1b[0m one\r\ntwo\n", "ok one\ntwo\n"),
        (" 10%\r 20%\r\ndone", " 10%\n 20%\ndone"),
        ("\x1b]0;title\x07a\tb\x9b31mc\x00\x07", "a\tbc"),
        ("end\r\r\n", "end\n"),
    ],
)
def test_words_are_left_and_lines(written: str, words: str) -> None:
    assert Plain().read(written) == words


@MANY
@given(OUTPUT, st.data())
def test_it_does_not_matter_how_it_was_cut(output: bytes, data: st.DataObject) -> None:
    text = output.decode("utf-8", "replace")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    plain = Plain()
    read = "".join(plain.read(text[start:end]) for start, end in pairwise([0, *cuts, len(text)]))
    assert read == Plain().read(text)
    assert not set(read) & {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))}
