"""The parts of the player that touch no terminal."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from infra.terminal.row import Span
from infra.terminal.style import DEFAULT, Style
from services.cli.player_keys import Key, KeyReader, Pressed
from services.cli.player_status import Standing, clock_of, status_line
from services.cli.player_window import Size, clipped, window

TEXT = st.text(alphabet="ab \u4e16\u754c\u00e9\U0001f600", max_size=30)
RED = Style(foreground=1)


def text_of(spans: list[Span]) -> str:
    return "".join(span.text for span in spans)


@given(st.lists(TEXT, max_size=4), st.integers(0, 20), st.integers(0, 20))
def test_a_line_is_cut_to_the_cells_that_there_are(texts: list[str], left: int, cols: int) -> None:
    spans = [Span(text, RED if number % 2 else DEFAULT) for number, text in enumerate(texts)]
    assert cell_len(text_of(clipped(spans, left, cols))) <= cols
    assert text_of(clipped(spans, 0, 10_000)) == "".join(texts)


def test_half_of_a_wide_character_is_a_blank_and_styles_stay() -> None:
    spans = [Span("ab", DEFAULT), Span("\u4e16\u754cc", RED)]
    assert clipped(spans, 1, 2) == [Span("b", DEFAULT), Span(" ", RED)]
    assert clipped(spans, 3, 4) == [Span(" \u754cc", RED)]
    assert clipped([Span("xe\u0301y", RED)], 1, 1) == [Span("e\u0301", RED)]


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 200), st.integers(1, 200), st.data())
def test_the_cursor_is_always_in_sight(rows: int, cols: int, height: int, width: int, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(0, cols - 1)), data.draw(st.integers(0, rows - 1))
    part = window(Size(rows, cols), Size(height, width), x, y)
    assert 0 <= x - part.left < width
    assert 0 <= y - part.top < height
    assert part.is_part == (rows > height or cols > width)


def test_keys_come_from_what_a_terminal_sends_also_in_pieces() -> None:
    expected: list[Pressed] = [Key.PAUSE, Key.FASTER, 7, Key.STEP, Key.BACK, Key.MARK_AFTER, Key.QUIT, Key.QUIT]
    data = b" \x1b[A7n\x1bODx\x1b[15~]\xff\x1bq\x03"
    assert KeyReader().feed(data) == expected
    reader = KeyReader()
    assert [key for byte in data for key in reader.feed(bytes([byte]))] == expected


@given(st.integers(1, 300), st.text(max_size=80), st.booleans(), st.booleans())
def test_the_status_line_fits_and_holds_no_control_character(cols: int, label: str, keys: bool, part: bool) -> None:
    line = status_line(
        Standing(
            place=7.0,
            total=3605.0,
            is_total_known=False,
            speed=0.5,
            paused=True,
            ended=False,
            seeking=False,
            sequence=12,
            label=label,
            part_of=Size(60, 200) if part else None,
            keys=keys,
        ),
        cols,
    )
    text = line.removeprefix("\x1b[7m")
    assert text.isprintable()
    assert cell_len(text) == cols
    if cols > 60:
        assert "paused 0:07 / 1:00:05+  0.5x  #12" in text


def test_times_read_as_on_a_clock() -> None:
    assert [clock_of(seconds) for seconds in (0, 59.9, 61, 3600)] == ["0:00", "0:59", "1:01", "1:00:00"]
