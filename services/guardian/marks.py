"""How far the guardian of a node has come, in its own words on the log.

A mark says: everything up to this sequence was judged, by rules with these settings, and all that was found is told.
What comes after the newest mark is judged again by the next life, which leaves out what is told already. Other settings
judge what comes after them, never the past.
"""

from typing import NamedTuple

import msgspec

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events.guardian import GuardianObserved
from contracts.guardian import Guardian
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.journal import Journal
from services.guardian.calls import fingerprint
from services.guardian.moments import milliseconds, moment

RULE = "guardian"
TAG = "guardian.observed"


class Mark(NamedTuple):
    sequence: int
    """The last that needs no judgement."""
    at_ms: int
    """The last moment that needs none: what is found by nothing happening is found at moments."""
    settings: str


class Marks:
    def __init__(self, bus: Bus, journal: Journal, settings: Guardian) -> None:
        self._bus = bus
        self._journal = journal
        self._settings = fingerprint(msgspec.to_builtins(settings))

    async def resume(self, head: int) -> Mark:
        """Without a mark of these settings one is made at `head`, as of now."""
        newest = await self._newest()
        if newest is not None and newest.settings == self._settings:
            return newest
        mark = Mark(head, milliseconds(clock.now()), self._settings)
        await self.put(mark.sequence, mark.at_ms)
        return mark

    async def look_away(self, head: int) -> None:
        """From `head` on nothing is judged, also not by those who come later: what was is not their business."""
        if await self._newest() is not None:
            await self.resume(head)

    async def put(self, sequence: int, at_ms: int) -> None:
        fact = GuardianObserved(
            rule=RULE,
            finding="watching from here on",
            evidence=(sequence,),
            key=self._settings,
            at=moment(at_ms),
        )
        name = f"{subjects.NO_SANDBOX}.{self._journal.node}.{sequence}.{self._settings}"
        written = self._journal.write(subjects.NO_SANDBOX, fact, id=name, scope=self._journal.node)
        await self._journal.append(written)

    async def _newest(self) -> Mark | None:
        entry = await reader.last(self._bus, subjects.event(subjects.NO_SANDBOX, TAG, self._journal.node))
        if entry is None:
            return None
        try:
            fact = codec.decode_fact(codec.decode_head(entry.data))
        except Invalid:
            return None
        if not isinstance(fact, GuardianObserved) or fact.rule != RULE or not fact.evidence:
            return None
        return Mark(fact.evidence[0], 0 if fact.at is None else milliseconds(fact.at), fact.key)
