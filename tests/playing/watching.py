"""Somebody who watches a replay at a terminal, and sees what the terminal shows."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from infra.embedded import secrets
from infra.terminal.emulator import Emulator
from tests.bus.servers import Server
from tests.cli.shell import PATIENCE_S, Shell
from tests.cli.terminal import Person, at_a_terminal

ROWS, COLS = 33, 99


class Watcher:
    def __init__(self, person: Person) -> None:
        self.person = person
        self._terminal = Emulator(COLS, ROWS)
        self._fed = 0

    def sees(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """Looks until the rows are as they should be, and returns them without their colours."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition(rows := self.rows()):
            left = deadline - time.monotonic()
            assert left > 0, "\n".join(rows)
            self.person._read(min(left, 0.2))
        return rows

    def sees_text(self, wanted: str) -> list[str]:
        return self.sees(lambda rows: any(wanted in row for row in rows))

    def sees_last(self, wanted: str) -> list[str]:
        """The last row that is not empty and above the status line."""
        return self.sees(lambda rows: [row for row in rows[:-1] if row][-1:] == [wanted])

    def rows(self) -> list[str]:
        self._feed()
        return ["".join(span.text for span in spans) for spans in self._terminal.spans()]

    def coloured(self) -> list[str]:
        self._feed()
        return self._terminal.lines()

    def resizes(self, rows: int, cols: int) -> None:
        self._feed()
        self._terminal.resize(cols, rows)
        self.person.resizes(rows, cols)

    def types(self, text: bytes) -> None:
        self.person.types(text)

    def leaves(self) -> int:
        self.person.types(b"q")
        return self.person.leaves()

    def _feed(self) -> None:
        self._terminal.feed(self.person.shown[self._fed :])
        self._fed = len(self.person.shown)


def shell_of(server: Server) -> Shell:
    """A command line for which the server runs elsewhere: no node is started, and no service."""
    return Shell(server.data, CLOCHE_URL=server.url, CLOCHE_CREDS=str(secrets.directory(server.data)))


@contextmanager
def watching(server: Server, *arguments: str) -> Iterator[Watcher]:
    with at_a_terminal(shell_of(server), "replay", *arguments) as person:
        yield Watcher(person)
