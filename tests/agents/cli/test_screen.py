"""What stays on a terminal while a story is told, and what is drawn again."""

import fcntl
import os
import pty
import struct
import termios
import tty
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from services.cli.agent_screen import Prompt, Screen, window
from tests.agents.cli.small_terminal import SmallTerminal
from tests.contracts.properties import calm

COLUMNS = 30


class Window:
    """A real terminal on one side, eyes on the other."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.output = os.fdopen(self._slave, "w", encoding="utf-8")
        self.eyes = SmallTerminal(COLUMNS)
        self._sized(COLUMNS)

    def _sized(self, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", 10, columns, 0, 0))

    def resize(self, columns: int) -> None:
        self._sized(columns)
        self.eyes.resize(columns)

    def look(self) -> list[str]:
        """Line breaks go to the beginning of the next row, as a terminal in its usual mode has them."""
        seen = b""
        try:
            while data := os.read(self._master, 65_536):
                seen += data
        except BlockingIOError:
            pass
        self.eyes.feed(seen.decode().replace("\n", "\r\n"))
        return self.eyes.rows

    def close(self) -> None:
        self.output.close()
        os.close(self._master)


@pytest.fixture
def shown() -> Iterator[Window]:
    opened = Window()
    yield opened
    opened.close()


def lines(*texts: str) -> list[Text]:
    return [Text(text) for text in texts]


def test_lines_stay_and_what_is_typed_is_always_below_them(shown: Window) -> None:
    screen = Screen(shown.output)
    screen.show(lines("one"), Text("two is gro"), Prompt("> typed", 3))
    assert shown.look() == ["one", "two is gro", "> typed"]
    assert (shown.eyes.row, shown.eyes.column) == (2, 3)
    screen.show(lines("two is growing"), None, Prompt("> typed", 7))
    assert shown.look() == ["one", "two is growing", "> typed"]
    screen.show((), Text("three"), Prompt("> ", 2))
    assert shown.look() == ["one", "two is growing", "three", ">"]
    screen.close()
    assert shown.look() == ["one", "two is growing"]
    assert shown.eyes.column == 0


def test_long_lines_are_wrapped_between_words_and_what_changes_is_cut(shown: Window) -> None:
    screen = Screen(shown.output)
    screen.show(lines("a line that is longer than thirty columns"), Text("x" * 100), Prompt("> ", 2))
    assert shown.look() == ["a line that is longer", "  │ than thirty columns", "x" * (COLUMNS - 1), ">"]
    screen.show((), None, Prompt("> ", 2))
    assert shown.look() == ["a line that is longer", "  │ than thirty columns", ">"]


def test_no_row_that_an_agent_wrote_is_without_its_gutter(shown: Window) -> None:
    screen = Screen(shown.output)
    screen.show(
        lines("  │ " + "x" * 25 + "? may it use Bash", "→ Bash  " + "y" * 21 + "yes: /approve", "│ " + "z" * 60)
    )
    assert shown.look() == [
        "  │ " + "x" * 25,
        "  │ ? may it use Bash",
        "→ Bash",
        "  │ " + "y" * 21 + "yes:",
        "  │ /approve",
        "│ " + "z" * 27,
        "│ " + "z" * 27,
        "│ zzzzzz",
    ]


@pytest.mark.parametrize("columns", [21, 60])
def test_a_window_that_changes_its_size_keeps_what_was_told(shown: Window, columns: int) -> None:
    screen = Screen(shown.output)
    screen.show(lines("told"), Text("t" * 29), Prompt("> " + "p" * 27, 29))
    shown.look()
    shown.resize(columns)
    screen.show(lines("more"), Text("tail"), Prompt("> p", 3))
    assert shown.look() == ["told", "more", "tail", "> p"]


STORY = st.lists(
    st.tuples(
        st.lists(st.text(st.characters(categories=["L", "N"], max_codepoint=255), max_size=70), max_size=3),
        st.text(st.characters(categories=["L"], max_codepoint=255), max_size=70),
        st.text(st.characters(categories=["L"], max_codepoint=255), max_size=70),
    ),
    max_size=10,
)


@calm
@given(STORY)
def test_whatever_is_told_and_typed_nothing_is_left_behind(story: list[tuple[list[str], str, str]]) -> None:
    opened = Window()
    screen = Screen(opened.output)
    told: list[str] = []
    for added, tail, typed in story:
        screen.show(lines(*added), Text(tail), window(typed, len(typed), COLUMNS - 1))
        told += added
        assert len(opened.look()) <= sum(-(-max(len(line), 1) // (COLUMNS - 5)) for line in told) + 2
    screen.close()
    assert "".join(row.removeprefix("  │ ") for row in opened.look()) == "".join(told)
    opened.close()
