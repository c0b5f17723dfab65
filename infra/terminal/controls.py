"""What each control sequence does to the cells. Those that are not here do nothing: nobody answers a question."""

import logging
from collections.abc import Callable
from functools import lru_cache

from pyte import modes

from infra.terminal.grid import LINE_DRAWING, PLAIN_SET, Grid
from infra.terminal.style import restyled
from infra.terminal.widths import NOTHING, width

logger = logging.getLogger(__name__)

TITLE = 200
"""Characters."""
MOST = 9999
PRIVATE = ("<", "=", ">", "?")

ALTERNATE = (47, 1047, 1049)
SAVE_CURSOR = 1048
WITH_CURSOR = 1049

_PRIVATE_MODES = {6: modes.DECOM, 7: modes.DECAWM, 25: modes.DECTCEM}
_MODES = {4: modes.IRM, 20: modes.LNM}

Sequence = Callable[[tuple[int, ...]], None]


class Controls:
    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self.faults = 0
        """Sequences that failed, and were passed over."""
        self._c0: dict[str, Callable[[], None]] = {
            "\b": grid.backspace,
            "\t": grid.tab,
            "\n": grid.linefeed,
            "\v": grid.linefeed,
            "\f": grid.linefeed,
            "\r": grid.carriage_return,
            "\x0e": lambda: self._shift(1),
            "\x0f": lambda: self._shift(0),
        }
        self._escapes: dict[str, Callable[[], None]] = {
            "c": grid.reset,
            "D": grid.index,
            "E": self._next_line,
            "M": grid.reverse_index,
            "H": grid.set_tab_stop,
            "7": grid.save_cursor,
            "8": grid.restore_cursor,
        }
        self._sequences = self._by_final()

    def _by_final(self) -> dict[str, Sequence]:
        grid = self._grid
        counted: dict[str, Callable[[int], None]] = {
            "@": grid.insert_characters,
            "A": grid.cursor_up,
            "B": grid.cursor_down,
            "C": grid.cursor_forward,
            "D": grid.cursor_back,
            "E": grid.cursor_down1,
            "F": grid.cursor_up1,
            "G": grid.cursor_to_column,
            "L": grid.insert_lines,
            "M": grid.delete_lines,
            "P": grid.delete_characters,
            "S": grid.scroll_up,
            "X": grid.erase_characters,
            "Z": grid.back_tab,
            "`": grid.cursor_to_column,
            "a": grid.cursor_forward,
            "b": grid.repeat,
            "d": grid.cursor_to_line,
            "e": grid.cursor_down,
        }
        found: dict[str, Sequence] = {final: _with_count(method) for final, method in counted.items()}
        return found | {
            "H": lambda given: grid.cursor_position(given[0], given[1] if len(given) > 1 else 1),
            "f": lambda given: grid.cursor_position(given[0], given[1] if len(given) > 1 else 1),
            "I": lambda given: self._tabs(given[0]),
            "J": lambda given: grid.erase_in_display(given[0]),
            "K": lambda given: grid.erase_in_line(given[0]),
            "T": lambda given: grid.scroll_down(given[0] or 1) if len(given) == 1 else None,
            "g": lambda given: grid.clear_tab_stop(given[0]),
            "h": lambda given: self._modes(given, on=True),
            "l": lambda given: self._modes(given, on=False),
            "r": lambda given: grid.set_margins(given[0], given[1] if len(given) > 1 else 0),
            "s": lambda _: grid.save_cursor(),
            "u": lambda _: grid.restore_cursor(),
        }

    def execute(self, character: str) -> None:
        """A C0 control."""
        if (method := self._c0.get(character)) is not None:
            method()
        self._grid.last = ""

    def escape(self, between: str, final: str) -> None:
        """`ESC <between> <final>`."""
        if not between and (method := self._escapes.get(final)) is not None:
            method()
        elif between in ("(", ")"):
            self._grid.sets[between == ")"] = LINE_DRAWING if final == "0" else PLAIN_SET
        self._grid.last = ""

    def sequence(self, parameters: str, between: str, final: str) -> None:
        """`CSI <parameters> <between> <final>`. Never raises."""
        try:
            self._dispatch(parameters, between, final)
        except Exception:
            # Whatever a program writes, it must not be the end of those who look at it; nor fill their log.
            if not self.faults:
                logger.exception("a sequence of a program was passed over: %r", (parameters, between, final))
            self.faults += 1

    def _dispatch(self, parameters: str, between: str, final: str) -> None:
        grid = self._grid
        if final == "m" and not between:
            grid.style = restyled(grid.style, parameters)
        elif (between, final) == ("!", "p"):
            grid.soft_reset()
        elif not between and parameters.startswith("?"):
            self._private(_numbers(parameters[1:]), final)
        elif not between and final in self._sequences and not parameters.startswith(PRIVATE):
            last = grid.last
            self._sequences[final](_numbers(parameters))
            if final == "b":
                grid.last = last
                return
        grid.last = ""

    def _private(self, given: tuple[int, ...], final: str) -> None:
        if final in "JK":
            self._sequences[final](given)
        elif final in "hl":
            for mode in given:
                self._private_mode(mode, on=final == "h")

    def _private_mode(self, mode: int, *, on: bool) -> None:
        grid = self._grid
        if mode in _PRIVATE_MODES:
            grid.switch(_PRIVATE_MODES[mode], on)
        elif mode == SAVE_CURSOR:
            (grid.save_cursor if on else grid.restore_cursor)()
        elif mode in ALTERNATE and on and grid.hidden is None:
            if mode == WITH_CURSOR:
                grid.save_cursor()
            grid.show_alternate()
        elif mode in ALTERNATE and not on and grid.hidden is not None:
            grid.show_main()
            if mode == WITH_CURSOR:
                grid.restore_cursor()
            grid.cursor.y = min(grid.cursor.y, grid.lines - 1)

    def _modes(self, given: tuple[int, ...], *, on: bool) -> None:
        for mode in given:
            if mode in _MODES:
                self._grid.switch(_MODES[mode], on)

    def operating_system_command(self, text: str) -> None:
        """`OSC <number> ; <text>`."""
        number, _, rest = text.partition(";")
        if number in ("0", "2"):
            self._grid.title = "".join(each for each in rest[:TITLE] if width(each) != NOTHING)
        self._grid.last = ""

    def _shift(self, to: int) -> None:
        self._grid.shifted = to

    def _next_line(self) -> None:
        self._grid.index()
        self._grid.carriage_return()

    def _tabs(self, count: int) -> None:
        for _ in range(min(count or 1, self._grid.columns)):
            self._grid.tab()


def _with_count(method: Callable[[int], None]) -> Sequence:
    return lambda given: method(given[0] or 1)


@lru_cache(maxsize=4096)
def _numbers(parameters: str) -> tuple[int, ...]:
    """At least one; 0 where none is given."""
    return tuple(min(int(each), MOST) if each.isdigit() and each.isascii() else 0 for each in parameters.split(";"))
