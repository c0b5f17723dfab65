"""The words of what a program wrote, to be read and searched: no colours, no moves, no titles."""

import re

from infra.terminal.parser import Parser

_WORDS = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f]*")


class Plain:
    """Of one program. What goes back to the beginning of its line, such as a progress bar, begins a new one."""

    def __init__(self) -> None:
        self._parser = Parser(self, self)
        self._kept: list[str] = []
        self._is_return = False

    def read(self, text: str) -> str:
        if self._parser.between_sequences and not self._is_return and _WORDS.fullmatch(text):
            return text
        self._parser.feed(text)
        kept, self._kept = self._kept, []
        return "".join(kept)

    def draw(self, data: str) -> None:
        if self._is_return:
            self.new_line()
        self._kept.append(data)

    def new_line(self) -> None:
        self._is_return = False
        self._kept.append("\n")

    def execute(self, character: str) -> None:
        if character == "\r":
            self._is_return = True
        elif character == "\n":
            self.new_line()
        elif character == "\t":
            self._kept.append(character)

    def escape(self, between: str, final: str) -> None:
        pass

    def sequence(self, parameters: str, between: str, final: str) -> None:
        pass

    def operating_system_command(self, text: str) -> None:
        pass
