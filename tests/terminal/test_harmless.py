"""What is left of what a program wrote, before a person's own terminal gets it."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infra.terminal.emulator import Emulator
from infra.terminal.harmless import Harmless
from tests.terminal.nasty import OUTPUT
from tests.terminal.test_emulator_always import MANY

ALLOWED = re.compile(
    r"(?:[^\x00-\x1f\x7f-\x9f]|[\a\b\t\n\v\f\r\x0e\x0f]|\x1b[cDEHM78]|\x1b[()][0B]|\x1b\[!p|"
    r"\x1b\[[0-9;:]*[@A-MPSTXZ`abd-gmrsu]|\x1b\[4[hl]|\x1b\[\?[0-9;:]*[JK]|\x1b\[\?(?:;|6|7|25|47|104[789])+[hl])*"
)
REPEATED = re.compile("(?:\x1b\\[|\x9b)[0-9;]*b")


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("\x1b]52;c;ZXZpbA==\x07clip\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "cliplink"),
        ("\x1b]0;title\x07\x9d2;title\x9ca\x1bP$qm\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d", "abcd"),
        ("\x1b[6n\x1b[c\x1b[>c\x1b[5n\x1b[18t\x1b[?6n\x1b[>q\x1b[?1$p\x05\x1bZ.", "."),
        ("\x1b[2h\x1b[12l\x1b[02;20h\x1b[20l\x1b[>1;4h\x1b[2;04h.", "\x1b[4h."),
        ("\x1b[20ha\nb\x1b[020lc\nd\x1b[20he\x1bcf\ng", "a\r\nbc\nde\x1bcf\ng"),
        ("\x1b[?1000;1006h\x1b[?2004h\x1b[?1h\x1b[>4;2m\x1b[=1u\x1b=.", "."),
        (
            "\x1b[?1049;1004h\x1b[1;31mred\x1b[0m\x9b2;3Hx\x1b[?25l",
            "\x1b[?1049h\x1b[1;31mred\x1b[0m\x1b[2;3Hx\x1b[?25l",
        ),
        ("\x1b]" + "x" * 5000 + "\x07.", "."),
    ],
)
def test_what_draws_is_left_and_nothing_else(written: str, left: str) -> None:
    assert Harmless().passed(written) == left
    one_by_one = Harmless()
    assert "".join(one_by_one.passed(character) for character in written) == left


@MANY
@given(OUTPUT, st.integers(0, 200))
def test_it_looks_the_same_on_a_terminal(output: bytes, cut: int) -> None:
    text = output.decode("utf-8", "replace")
    # A repetition repeats nothing where something else stood between, which may be gone.
    assume(not REPEATED.search(text))
    harmless = Harmless()
    left = harmless.passed(text[:cut]) + harmless.passed(text[cut:])
    assert ALLOWED.fullmatch(left)
    wanted, found = Emulator(12, 5, 3), Emulator(12, 5, 3)
    wanted.feed(text.encode())
    found.feed(left.encode())
    assert (found.lines(), found.scrollback(), found.cursor) == (wanted.lines(), wanted.scrollback(), wanted.cursor)
