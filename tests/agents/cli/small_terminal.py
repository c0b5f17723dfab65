"""As much of a terminal as a story needs: characters, line breaks, a cursor that moves, rows that are erased."""

import re

_PARTS = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\x00-\x1f\x7f])|([^\x00-\x1f\x7f]+)")


class SmallTerminal:
    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[list[str]] = [[]]
        self.row = 0
        self.column = 0

    @property
    def rows(self) -> list[str]:
        """What can be seen, without empty rows at the end."""
        shown = ["".join(row).rstrip() for row in self._rows]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    def feed(self, text: str) -> None:
        """Raises `AssertionError` for anything that a small terminal does not know."""
        for match in _PARTS.finditer(text):
            arguments, final, control, words = match.groups()
            if final is not None:
                self._move(arguments, final)
            elif control is not None:
                self._control(control)
            for character in words or "":
                self._put(character)

    def resize(self, columns: int) -> None:
        """Rows that are too long are broken, as most terminals do; the cursor stays with its character."""
        before, at = self._rows, (self.row, self.column)
        self._columns, self._rows = columns, []
        for number, row in enumerate(before):
            pieces = [row[begin : begin + columns] for begin in range(0, len(row), columns)] or [[]]
            if number == at[0]:
                self.row, self.column = len(self._rows) + at[1] // columns, at[1] % columns
            self._rows += pieces
        self._reach()

    def _put(self, character: str) -> None:
        if self.column >= self._columns:
            self.row, self.column = self.row + 1, 0
        self._reach()
        row = self._rows[self.row]
        row += [" "] * (self.column + 1 - len(row))
        row[self.column] = character
        self.column += 1

    def _control(self, control: str) -> None:
        assert control in "\r\n", repr(control)
        if control == "\n":
            self.row += 1
        else:
            self.column = 0
        self._reach()

    def _move(self, arguments: str, final: str) -> None:
        count = int(arguments) if arguments.isdigit() else 1
        match final:
            case "A":
                assert self.row >= count, "above the first row"
                self.row -= count
            case "C":
                self.column += count
            case "J":
                del self._rows[self.row + 1 :]
                del self._rows[self.row][self.column :]
            case "m":
                pass
            case "h" | "l":
                assert arguments == "?2004", arguments
            case _:
                raise AssertionError(f"ESC [ {arguments} {final}")

    def _reach(self) -> None:
        while len(self._rows) <= self.row:
            self._rows.append([])
