"""One line, typed at a terminal: keys in, lines out. No terminal is touched here."""

import codecs
from enum import Enum, auto

MOST = 100_000
"""Characters of a line."""
REMEMBERED = 200
ESCAPE = "\x1b"
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
LONGEST_SEQUENCE = 16


class Leave(Enum):
    """What was typed instead of a line."""

    INTERRUPT = auto()
    """Ctrl-C on an empty line."""
    END = auto()
    """Ctrl-D on an empty line."""


class LineEditor:
    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sequence = ""
        self._pasting = False
        self._history: list[str] = []
        self._at = 0
        """In the history; its length = the line that is being typed."""
        self._draft = ""

    def feed(self, data: bytes) -> list[str | Leave]:
        """Lines that are complete with these bytes, and whether somebody wants to leave."""
        results = [self._take(character) for character in self._decoder.decode(data)]
        return [result for result in results if result is not None]

    @property
    def shown(self) -> str:
        """One row, as long as the text: what cannot be shown in it stands as one character that can."""
        return "".join(_visible(character) for character in self.text)

    def _take(self, character: str) -> str | Leave | None:
        if self._sequence or character == ESCAPE:
            self._escape(character)
        elif self._pasting:
            self._insert("\n" if character == "\r" else character)
        elif character in "\r\n":
            return self._submit()
        elif character == "\x03":
            return self._clear()
        elif character == "\x04" and not self.text:
            return Leave.END
        elif character in _CONTROLS:
            self._press(_CONTROLS[character])
        elif character.isprintable() or character == "\t":
            self._insert(character)
        return None

    def _escape(self, character: str) -> None:
        if character == ESCAPE:
            self._sequence = ESCAPE
            return
        self._sequence += character
        is_open = character in "[O" if len(self._sequence) == 2 else not "@" <= character <= "~"
        if is_open and len(self._sequence) < LONGEST_SEQUENCE:
            return
        sequence, self._sequence = self._sequence, ""
        if sequence in (PASTE_BEGINS, PASTE_ENDS):
            self._pasting = sequence == PASTE_BEGINS
        elif sequence in _SEQUENCES:
            self._press(_SEQUENCES[sequence])

    def _press(self, key: str) -> None:
        match key:
            case "left":
                self.cursor = max(self.cursor - 1, 0)
            case "right":
                self.cursor = min(self.cursor + 1, len(self.text))
            case "home":
                self.cursor = 0
            case "end":
                self.cursor = len(self.text)
            case "up" | "down":
                self._recall(-1 if key == "up" else 1)
            case _:
                self._erase(key)

    def _erase(self, key: str) -> None:
        begin, end = self.cursor, self.cursor
        match key:
            case "backspace":
                begin = max(begin - 1, 0)
            case "delete":
                end = min(end + 1, len(self.text))
            case "to_end":
                end = len(self.text)
            case "to_start":
                begin = 0
            case "word":
                before = self.text[:begin].rstrip()
                begin = before.rfind(" ") + 1
        self.text = self.text[:begin] + self.text[end:]
        self.cursor = begin

    def _insert(self, character: str) -> None:
        if len(self.text) < MOST:
            self.text = self.text[: self.cursor] + character + self.text[self.cursor :]
            self.cursor += 1

    def _submit(self) -> str:
        line = self.text
        if line.strip() and self._history[-1:] != [line]:
            self._history = [*self._history, line][-REMEMBERED:]
        self._reset()
        return line

    def _clear(self) -> Leave | None:
        was_empty = not self.text
        self._reset()
        return Leave.INTERRUPT if was_empty else None

    def _reset(self) -> None:
        self.text, self.cursor = "", 0
        self._at, self._draft = len(self._history), ""

    def _recall(self, step: int) -> None:
        if self._at == len(self._history):
            self._draft = self.text
        self._at = min(max(self._at + step, 0), len(self._history))
        self.text = self._history[self._at] if self._at < len(self._history) else self._draft
        self.cursor = len(self.text)


_CONTROLS = {
    "\x01": "home",
    "\x02": "left",
    "\x04": "delete",
    "\x05": "end",
    "\x06": "right",
    "\x08": "backspace",
    "\x7f": "backspace",
    "\x0b": "to_end",
    "\x0e": "down",
    "\x10": "up",
    "\x15": "to_start",
    "\x17": "word",
}
_SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1bOH": "home",
    "\x1bOF": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1b[3~": "delete",
}


def _visible(character: str) -> str:
    if character == "\n":
        return "⏎"
    return character if character.isprintable() else "·"
