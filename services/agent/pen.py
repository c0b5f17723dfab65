"""Writes the facts of one run, each once."""

import asyncio

from contracts import codec
from contracts.message import Fact
from infra import clock
from infra.journal import Journal
from services.agent import course
from services.agent.record import Record
from services.agent.sizes import bounded


class Pen:
    def __init__(self, journal: Journal, record: Record) -> None:
        self._journal = journal
        self._record = record

    def has(self, key: str) -> bool:
        """Whether an earlier life of this service has written what belongs to this key."""
        return f"{self._journal.service}.{self._record.event_id(key)}" in self._record.told

    async def write(self, key: str, fact: Fact) -> None:
        """Nothing where an earlier life did, or this one a moment ago."""
        if not self.has(key):
            await self._append(self._record.event_id(key), bounded(fact), self._record.run)

    async def receive(self, order: str, fact: Fact) -> None:
        """What somebody said, on receipt: under the id of the order that brought it."""
        await self._append(f"{self._record.sandbox}.{self._record.run}.received.{order}", fact, order)

    async def _append(self, name: str, fact: Fact, command: str) -> None:
        """Whoever is cancelled meanwhile, what is on its way is stored and folded."""
        if self._record.is_written(name):
            return
        writing = self._record.writing.get(name)
        if writing is None:
            writing = asyncio.create_task(self._store(name, fact, command))
            self._record.writing[name] = writing
            writing.add_done_callback(lambda _: self._record.writing.pop(name, None))
        await asyncio.shield(writing)

    async def _store(self, name: str, fact: Fact, command: str) -> None:
        at = clock.steady()
        written = self._journal.write(self._record.sandbox, fact, id=name, command=command)
        sequence = await self._journal.append(written)
        self._record.note_written(name)
        course.told(self._record, fact)
        await self._record.apply(sequence, codec.decode_head(written.payload), fact, at)
