"""Damage that was found, told once each: in the log, where it is also remembered, and to whoever reads ours."""

import logging
from typing import NamedTuple

from contracts import codec, subjects
from contracts.chain import Fault
from contracts.errors import Conflict, Invalid
from contracts.events.audit import AuditDamaged
from contracts.findings import Finding
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.bus.publisher import Expect, append
from infra.journal import Journal

logger = logging.getLogger(__name__)

SUBJECT = subjects.event(subjects.NO_SANDBOX, "audit.damaged")
MOST = 1000
"""That are told. A log that is worse than that needs no more of them."""
GONE = (Fault.LOST, Fault.MISSING, Fault.TRUNCATED)
DETAIL = 500


class Told(NamedTuple):
    sequence: int
    damage: AuditDamaged | None
    """None where it cannot be read."""

    def says(self, damage: AuditDamaged) -> bool:
        """Not of what was stored after it was told: a log that was cut gives its numbers again."""
        if (told := self.damage) is None:
            return False
        same = told.fault == damage.fault or (told.fault in GONE and damage.fault in GONE)
        within = told.first_sequence <= damage.first_sequence and damage.last_sequence <= told.last_sequence
        return same and within and damage.first_sequence <= self.sequence


class Damages:
    def __init__(self, bus: Bus, journal: Journal) -> None:
        self._bus = bus
        self._journal = journal
        self._guard = 0
        self._told: list[Told] = []

    async def load(self) -> None:
        """What the log tells already."""
        self._told = await told(self._bus)
        self._guard = self._told[-1].sequence if self._told else 0

    async def tell(self, finding: Finding, found: str) -> None:
        """Once, whoever else tells it too."""
        damage = AuditDamaged(
            first_sequence=finding.sequence,
            last_sequence=finding.last,
            fault=finding.fault,
            detail=finding.detail[:DETAIL],
            found=found,
        )
        while not self._is_told(damage) and len(self._told) < MOST:
            try:
                await self._append(damage)
            except Conflict:
                await self.load()
                continue
            self._told.append(Told(self._guard, damage))
            logger.error("THE LOG IS DAMAGED: %s", words(damage))
            return

    async def _append(self, damage: AuditDamaged) -> None:
        # The guard tells two of the same apart that were told at different times: each has its own place.
        id_ = f"damaged.{damage.fault}.{damage.first_sequence}.{damage.last_sequence}.{self._guard}"
        written = self._journal.write(subjects.NO_SANDBOX, damage, id=id_)
        guard = Expect(SUBJECT, self._guard)
        ack = await append(self._bus, written.subject, written.payload, written.id, expect=guard)
        self._guard = ack.seq

    def _is_told(self, damage: AuditDamaged) -> bool:
        return any(each.says(damage) for each in self._told)


async def told(bus: Bus) -> list[Told]:
    """What the log tells of damage, oldest first."""
    return [Told(entry.seq, _damage(entry)) async for entry in reader.read(bus, [SUBJECT], follow=False)]


def readable(found: list[Told]) -> tuple[AuditDamaged, ...]:
    return tuple(each.damage for each in found if each.damage is not None)


def _damage(entry: Entry) -> AuditDamaged | None:
    try:
        damage: AuditDamaged = codec.decode(codec.decode_head(entry.data).data, AuditDamaged)
    except Invalid:
        return None
    return damage


def words(damage: AuditDamaged) -> str:
    first, last = damage.first_sequence, damage.last_sequence
    return f"sequence {first if first == last else f'{first} to {last}'}: {damage.fault}: {damage.detail}"
