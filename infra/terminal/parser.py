"""Text of a program, cut into characters to draw and control sequences. Any cut of the input gives the same."""

import re
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

PARAMETERS = 128
"""Characters of the parameters of one sequence; one with more is ignored."""
BETWEEN = 4
STRING = 1024
"""Characters kept of a string (a title); it may be as long as it likes."""

_TOKEN = re.compile(
    r"([^\x00-\x1f\x7f-\x9f]+)"
    r"|(\r\n)"
    r"|([\x00-\x17\x19\x1c-\x1f\x7f])"
    rf"|\x1b\[([0-?]{{0,{PARAMETERS}}})([ -/]{{0,{BETWEEN}}})([@-~])"
)
_IN_STRING = re.compile(r"[^\x07\x18\x1a\x1b\x9c]+")
_CANCEL = "\x18\x1a"
_STRINGS = "]PX^_k"
"""OSC, DCS, SOS, PM, APC, and the title of `screen`."""


class State(StrEnum):
    GROUND = "ground"
    ESCAPE = "escape"
    SEQUENCE = "sequence"
    IGNORED = "ignored"
    STRING = "string"
    STRING_ESCAPE = "string_escape"


class Partial(Struct, kw_only=True):
    """What has begun and not ended."""

    state: State = State.GROUND
    parameters: str = ""
    between: str = ""
    string: str = ""
    """Its kind, then what was kept of it."""


class Draws(Protocol):
    """Where text goes."""

    def draw(self, data: str) -> None:
        """Characters that are none of a terminal's own (C0, C1, DEL)."""
        ...

    def new_line(self) -> None:
        """A carriage return and a line feed."""
        ...


class Obeys(Protocol):
    """Who does what the rest of it says; see `Controls`."""

    def execute(self, character: str) -> None: ...

    def escape(self, between: str, final: str) -> None: ...

    def sequence(self, parameters: str, between: str, final: str) -> None: ...

    def operating_system_command(self, text: str) -> None: ...


class Parser:
    def __init__(self, grid: Draws, controls: Obeys) -> None:
        self._grid = grid
        self._controls = controls
        self.partial = Partial()

    @property
    def between_sequences(self) -> bool:
        return self.partial.state == State.GROUND

    def feed(self, text: str, at: int = 0, until: int | None = None) -> int:
        """From there on, to the end or to the first token that ends at `until` or later; returns where that is."""
        end = len(text) if until is None else until
        while at < end:
            at = self._run(text, at, end) if self.partial.state == State.GROUND else self._step(text, at)
        return at

    def _run(self, text: str, at: int, end: int) -> int:
        match, draw, new_line = _TOKEN.match, self._grid.draw, self._grid.new_line
        execute, sequence = self._controls.execute, self._controls.sequence
        while at < end:
            if (token := match(text, at)) is None:
                return self._step(text, at)
            at = token.end()
            kind = token.lastindex
            if kind == 1:
                draw(token[1])
            elif kind == 2:
                new_line()
            elif kind == 3:
                execute(token[3])
            else:
                sequence(token[4], token[5], token[6])
        return at

    def _step(self, text: str, at: int) -> int:
        """One character, or a piece of a string; returns what follows."""
        if self.partial.state == State.STRING and (piece := _IN_STRING.match(text, at)):
            room = max(STRING - len(self.partial.string), 0)
            self.partial.string += text[at : min(piece.end(), at + room)]
            return piece.end()
        return at + 1 if self._take(text[at]) else at

    def _take(self, character: str) -> bool:
        """False if it is yet to be read, in another state."""
        state = self.partial.state
        if state == State.STRING:
            return self._end_string(character)
        if state == State.STRING_ESCAPE:
            return self._after_string(character)
        if state == State.GROUND:
            return self._begin(character)
        if character == "\x1b":
            self.partial = Partial(state=State.ESCAPE)
        elif character in _CANCEL:
            self.partial = Partial()
        elif character < " ":
            self._controls.execute(character)
        elif character >= "\x80":
            self.partial = Partial()
            return False
        elif character != "\x7f":
            (self._in_escape if state == State.ESCAPE else self._in_sequence)(character)
        return True

    def _begin(self, character: str) -> bool:
        if character == "\x1b":
            self.partial = Partial(state=State.ESCAPE)
        elif "\x80" <= character <= "\x9f":
            # The C1 controls are short for ESC and another character.
            if character != "\x9c":
                self._in_escape(chr(ord(character) - 0x40))
        elif character < " " or character == "\x7f":
            self._controls.execute(character)
        else:
            self._grid.draw(character)
        return True

    def _in_escape(self, character: str) -> None:
        partial = self.partial
        if not partial.between and character == "[":
            self.partial = Partial(state=State.SEQUENCE)
        elif not partial.between and character in _STRINGS:
            self.partial = Partial(state=State.STRING, string=character)
        elif character <= "/":
            partial.between = (partial.between + character)[:BETWEEN]
        else:
            self.partial = Partial()
            self._controls.escape(partial.between, character)

    def _in_sequence(self, character: str) -> None:
        partial = self.partial
        if character >= "@":
            self.partial = Partial()
            if partial.state == State.SEQUENCE:
                self._controls.sequence(partial.parameters, partial.between, character)
        elif character <= "/":
            partial.between += character
        elif partial.between:
            partial.state = State.IGNORED
        else:
            partial.parameters += character
        if len(partial.parameters) > PARAMETERS or len(partial.between) > BETWEEN:
            self.partial = Partial(state=State.IGNORED)

    def _end_string(self, character: str) -> bool:
        string = self.partial.string
        if character == "\x1b":
            self.partial.state = State.STRING_ESCAPE
        elif character == "\x07" and string[0] != "]":
            return True
        else:
            self.partial = Partial()
            if character not in _CANCEL:
                self._finish(string)
        return True

    def _after_string(self, character: str) -> bool:
        string = self.partial.string
        if character == "\\":
            self.partial = Partial()
            self._finish(string)
            return True
        self.partial = Partial(state=State.ESCAPE)
        return False

    def _finish(self, string: str) -> None:
        if string[0] == "]":
            self._controls.operating_system_command(string[1:])
