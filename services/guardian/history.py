"""The same rules over the past: what would have been found, and when."""

from collections.abc import Iterator
from typing import NamedTuple

from contracts.errors import Invalid
from services.guardian.decide import Decision
from services.guardian.engine import Engine
from services.guardian.rules.rule_set import Bound


class Judged(NamedTuple):
    sandbox: str
    decision: Decision


class History:
    """Feed it a log in order. What lies before the sequence `since`, stored at `since_ms`, is only read for what it
    says about what comes.
    """

    def __init__(self, rules: tuple[Bound, ...], *, since: int = 1, since_ms: int = 0) -> None:
        self._engine = Engine(rules, learns=False, since_ms=since_ms)
        self._since = since
        self.wanted = self._engine.wanted
        self.events = 0
        self.unreadable = 0

    def feed(self, sequence: int, at_ms: int | None, raw: bytes) -> Iterator[Judged]:
        """`at_ms`: when it was stored; None = as the event says."""
        self.events += 1
        try:
            told = self._engine.read(sequence, at_ms, raw)
        except Invalid:
            self.unreadable += 1
            return
        if told is not None:
            for decision in self._engine.feed(told, silent=sequence < self._since):
                yield Judged(told.sandbox, decision)

    def end(self, at_ms: int) -> Iterator[Judged]:
        """The last moment that belongs to the past."""
        for sandbox in self._engine.due(at_ms):
            for decision in self._engine.until(sandbox, at_ms):
                yield Judged(sandbox, decision)
