"""What a program wrote, for a terminal that somebody sits at: all that draws, nothing that asks or sets anything up.

Left out are titles, links, the clipboard, pictures and other strings, questions that a terminal would answer as if it
were typed, and modes that change what its keys and its mouse send. What is shown stays the same.
"""

import re

from infra.terminal.controls import ALTERNATE, SAVE_CURSOR
from infra.terminal.forward import soft_end
from infra.terminal.grid import LINE_DRAWING, PLAIN_SET
from infra.terminal.parser import Parser

_CONTROLS = frozenset("\a\b\t\n\v\f\r\x0e\x0f")
_ESCAPES = frozenset("cDEHM78")
_FINALS = frozenset("@ABCDEFGHIJKLMPSTXZ`abdefgmrsu")
_PRIVATE_FINALS = frozenset("JK")
_MODES = frozenset(map(str, (6, 7, 25, SAVE_CURSOR, *ALTERNATE)))
_INSERT, _NEW_LINE = "4", "20"
"""The modes without a `?` that draw. Among the others are one that locks the keyboard, and one that echoes it."""
_FEEDS = frozenset("\n\v\f")
_NUMBERS = re.compile(r"[0-9;:]*")


class Harmless:
    """Of one program. What has begun and not ended waits, at most a few characters, until the rest of it comes."""

    def __init__(self) -> None:
        self._parser = Parser(self, self)
        self._kept: list[str] = []
        self._returns = False
        """A line feed returns as well. A terminal that was told so would send another Return, too."""

    def passed(self, text: str) -> str:
        if self._parser.between_sequences and not self._returns and soft_end(text) == len(text):
            return text
        self._parser.feed(text)
        kept, self._kept = self._kept, []
        return "".join(kept)

    def draw(self, data: str) -> None:
        self._kept.append(data)

    def new_line(self) -> None:
        self._kept.append("\r\n")

    def execute(self, character: str) -> None:
        if character in _CONTROLS:
            self._kept.append(f"\r{character}" if self._returns and character in _FEEDS else character)

    def escape(self, between: str, final: str) -> None:
        if not between and final in _ESCAPES:
            self._returns = self._returns and final != "c"
            self._kept.append(f"\x1b{final}")
        elif between in ("(", ")"):
            self._kept.append(f"\x1b{between}{LINE_DRAWING if final == LINE_DRAWING else PLAIN_SET}")

    def sequence(self, parameters: str, between: str, final: str) -> None:
        if not between and parameters.startswith("?"):
            self._private(parameters[1:], final)
        elif (between, final) == ("!", "p"):
            self._returns = False
            self._kept.append("\x1b[!p")
        elif between or not _NUMBERS.fullmatch(parameters):
            return
        elif final in "hl":
            self._mode(parameters, final)
        elif final in _FINALS:
            self._kept.append(f"\x1b[{parameters}{final}")

    def _mode(self, parameters: str, final: str) -> None:
        given = [mode.lstrip("0") for mode in parameters.split(";")]
        if _NEW_LINE in given:
            self._returns = final == "h"
        if _INSERT in given:
            self._kept.append(f"\x1b[{_INSERT}{final}")

    def _private(self, parameters: str, final: str) -> None:
        if final in "hl":
            kept = [mode for mode in parameters.split(";") if mode.lstrip("0") in _MODES]
            self._kept += [f"\x1b[?{';'.join(kept)}{final}"] if kept else []
        elif final in _PRIVATE_FINALS and _NUMBERS.fullmatch(parameters):
            self._kept.append(f"\x1b[?{parameters}{final}")

    def operating_system_command(self, text: str) -> None:
        pass
