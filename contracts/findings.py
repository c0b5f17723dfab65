"""What is wrong with a log, each fault at its sequence: as many as a person can read, and the number of the others."""

from bisect import insort
from typing import NamedTuple

from contracts.chain import Fault

MOST = 1000
"""That are kept, the first ones of the log. The others are counted."""
MOST_CHARACTERS = 500
"""Of what is said about one: it may quote a message of any size."""


class Finding(NamedTuple):
    sequence: int
    """The first one that is wrong."""
    last: int
    """The last of a run of neighbours with the same fault."""
    fault: str
    """See `contracts.chain.Fault` for the chain, `contracts.proof.Fault` for commands."""
    detail: str


class Findings:
    """Neighbours that have the same fault are one finding, so a log that is wrong from some point on is a few lines."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._run: Finding | None = None
        self._count = 0

    def add(self, sequence: int, fault: Fault | str, detail: str, *, last: int | None = None) -> None:
        """`last` is the end of a run. The detail of a run is that of its first."""
        last = sequence if last is None else last
        run = self._run
        if run is not None and run.fault == fault and run.last + 1 == sequence:
            self._run = run._replace(last=last)
            return
        self._count += 1
        self._keep_run()
        self._run = Finding(sequence, last, str(fault)[:MOST_CHARACTERS], detail[:MOST_CHARACTERS])

    def _keep_run(self) -> None:
        if self._run is None:
            return
        insort(self._kept, self._run)
        del self._kept[MOST:]
        self._run = None

    @property
    def more(self) -> int:
        """How many there are that are not kept."""
        return max(0, self._count - MOST)

    def touch(self, first: int, last: int) -> bool:
        """Whether any of them is about a sequence of a range."""
        return any(each.sequence <= last and first <= each.last for each in self.in_order())

    def in_order(self) -> tuple[Finding, ...]:
        """By sequence."""
        self._keep_run()
        return tuple(self._kept)
