"""What the log already says of a sandbox's health, and the only way to say more: nobody says the same twice."""

import datetime
import hashlib
from typing import NamedTuple

from contracts import codec, subjects
from contracts.errors import Conflict
from contracts.events import health as facts
from contracts.message import EventHead, Fact
from contracts.registry import tag_of
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.publisher import Expect, append
from infra.journal import Journal


class Told(NamedTuple):
    """A fold of the `health` events of one sandbox."""

    sequence: int = 0
    """The last of them: what the next one must expect."""
    health: str = "unknown"
    health_sequence: int = 0
    died: facts.HealthDied | None = None
    """The last death."""
    died_at: datetime.datetime | None = None
    """When that was told."""
    exceeded: dict[str, int] = {}
    """Limit → the sequence at which it was last said to be exceeded."""

    def of_life(self, since: int) -> str:
        """Its health, where that was said after sequence `since`."""
        return self.health if self.health_sequence > since else "unknown"

    def is_exceeded(self, limit: str, since: int) -> bool:
        return self.exceeded.get(limit, 0) > since


def fold(told: Told, sequence: int, head: EventHead) -> Told:
    match codec.decode_fact(head):
        case facts.HealthHealthy():
            return told._replace(sequence=sequence, health="healthy", health_sequence=sequence)
        case facts.HealthUnhealthy():
            return told._replace(sequence=sequence, health="unhealthy", health_sequence=sequence)
        case facts.HealthDied() as died:
            at = head.time
            return told._replace(sequence=sequence, health="died", health_sequence=sequence, died=died, died_at=at)
        case facts.HealthLimitExceeded(limit=limit):
            return told._replace(sequence=sequence, exceeded={**told.exceeded, limit: sequence})
    return told._replace(sequence=sequence)


class HealthLog:
    """Remembers what it has read. What somebody else writes meanwhile is found when the next append is refused."""

    def __init__(self, bus: Bus, journal: Journal) -> None:
        self._bus = bus
        self._journal = journal
        self._told: dict[str, Told] = {}

    async def told(self, sandbox: str) -> Told:
        return self._told[sandbox] if sandbox in self._told else await self.read(sandbox)

    async def read(self, sandbox: str) -> Told:
        """From the log itself, where it was left."""
        told = self._told.get(sandbox, Told())
        filters = [subjects.health_events(sandbox)]
        async for entry in reader.read(self._bus, filters, told.sequence + 1, follow=False):
            told = fold(told, entry.seq, codec.decode_head(entry.data))
        self._told[sandbox] = told
        return told

    async def tell(self, sandbox: str, fact: Fact, *, knowing: Told, about: str | None) -> bool:
        """Append it unless somebody else has said something meanwhile: then False, to be thought over again.

        `knowing` is what was told when it was decided to say this; `about` is the life that the fact is of: the same
        fact of the same life is one event, whoever says it.
        """
        expected = knowing.sequence
        rival = hashlib.sha256(f"{sandbox}/{about}/{expected}".encode()).hexdigest()[:24]
        written = self._journal.write(sandbox, fact, id=f"{sandbox}.{tag_of(fact)}.{rival}")
        guard = Expect(subjects.health_events(sandbox), expected)
        try:
            await append(self._bus, written.subject, written.payload, written.id, expect=guard)
        except Conflict:
            await self.read(sandbox)
            return False
        await self.read(sandbox)
        return True

    def forget(self, sandbox: str) -> None:
        self._told.pop(sandbox, None)
