"""What the log lacks in the middle, and how a reader that does not see every sequence learns of it.

Nobody may delete from the log, so what is missing was lost by the store. Retention removes from the beginning only.
"""

import logging
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from contracts import subjects
from contracts.history import Sequence
from contracts.streams import LOG_STREAM
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.in_turn import InTurn
from infra.bus.log_state import state_of
from infra.bus.page import Entry

logger = logging.getLogger(__name__)

DAMAGED = subjects.event(subjects.NO_SANDBOX, "audit.damaged")
GONE_FAULTS = frozenset({"missing", "lost"})
CUT_FAULT = "truncated"
LISTED_AT_MOST = 1_000_000
"""Of lost sequences that the server is asked for one by one: a damaged length makes it claim any number."""
LOOK_AGAIN_S = 5.0
PROBE_ENTRIES = 1000


class Gap(NamedTuple):
    """Sequences that are not there, from and to."""

    first: int
    last: int


OnGap = Callable[[Gap], None]


class _Damaged(msgspec.Struct):
    first_sequence: Sequence
    last_sequence: Sequence
    fault: str

    @property
    def gap(self) -> Gap:
        return Gap(self.first_sequence, self.last_sequence)


class _Told(msgspec.Struct):
    data: _Damaged


_warned: set[Gap] = set()


def warn(gap: Gap) -> None:
    """Once for each in a process: what a reader does that was not told whom to tell."""
    if gap not in _warned and len(_warned) < PROBE_ENTRIES:
        _warned.add(gap)
        logger.warning("the log lacks sequence %d to %d: see `cloche audit`", *gap)


def merge(gaps: Iterable[Gap]) -> list[Gap]:
    """In order, each sequence once."""
    merged: list[Gap] = []
    for gap in sorted(gaps):
        if merged and gap.first <= merged[-1].last + 1:
            merged[-1] = Gap(merged[-1].first, max(merged[-1].last, gap.last))
        else:
            merged.append(gap)
    return merged


def clip(gaps: Iterable[Gap], first: int, last: int) -> list[Gap]:
    """What of them lies within a range."""
    clipped = (Gap(max(gap.first, first), min(gap.last, last)) for gap in gaps)
    return [gap for gap in clipped if gap.first <= gap.last]


def between(entries: Iterable[Entry], expected: int) -> list[Gap]:
    """The holes in what should be every sequence from `expected` on."""
    holes: list[Gap] = []
    for entry in entries:
        if entry.seq > expected:
            holes.append(Gap(expected, entry.seq - 1))
        expected = entry.seq + 1
    return holes


async def probe(bus: Bus, first: int, last: int) -> list[Gap]:
    """What is really missing from a range, by reading it. Raises what `page.fetch` raises."""
    missing: list[Gap] = []
    at, limit = first, 1
    while at <= last:
        found = await page.fetch(bus, subjects.LOG, at, limit=limit)
        if not found.entries:
            missing.append(Gap(at, last))
            break
        missing += between(found.entries, at)
        at = found.entries[-1].seq + 1
        limit = PROBE_ENTRIES
    return clip(missing, first, last)


class Gaps:
    """What one connection knows of the log's gaps. The server and the auditor claim them; reading shows them."""

    def __init__(self, bus: Bus) -> None:
        self._bus = weakref.ref(bus)
        self._known: list[Gap] = []
        self._cut: list[Gap] = []
        """What the auditor had seen where the log was cut: other events have those sequences since."""
        self._deleted = 0
        self._next_damage = 1
        self._claims: list[Gap] = []
        """What the auditor says is not there, and nobody has looked for yet."""
        self._asking = InTurn()
        self._looking = InTurn()
        self._looked_at = -LOOK_AGAIN_S
        self._searched: Gap | None = None
        self._state: dict[str, Any] = {}
        self._state_until = 0.0
        self._epoch = 0

    @classmethod
    def of(cls, bus: Bus) -> "Gaps":
        found = _by_bus.get(bus)
        if found is None:
            found = _by_bus[bus] = cls(bus)
        return found

    async def known(self, state: dict[str, Any], first: int, last: int) -> list[Gap]:
        """Within a range, by what the server (`state` of STREAM.INFO) and the auditor say. Raises `Unavailable`."""
        await self._look(state)
        return clip(self._known, max(first, state["first_seq"]), last)

    async def lost(self, state: dict[str, Any], first: int, last: int) -> list[Gap]:
        """As `known`, in order, with what was there once: whole, though its sequences were given again."""
        holes, begin = await self.known(state, first, last), max(first, state["first_seq"])
        return sorted([*holes, *(gap for gap in self._cut if gap.first <= last and begin <= gap.last)])

    async def lately(self, first: int, last: int) -> list[Gap]:
        """As `lost`, by what was known some seconds ago at most: from memory meanwhile. Raises `Unavailable`."""
        bus = self._held()
        if not self._is_recent(bus):
            async with self._asking.turn(bus):
                if not self._is_recent(bus):
                    self._epoch, self._state = bus.epoch, await state_of(bus)
                    self._looked_at = -LOOK_AGAIN_S
                    self._state_until = time.monotonic() + LOOK_AGAIN_S
        return await self.lost(self._state, first, last)

    async def search(self, first: int, last: int) -> list[Gap]:
        """Within a range, by reading every sequence of it, unless this was done before. Raises `Unavailable`."""
        done = self._searched
        if done is None or first < done.first or first > done.last:
            done = Gap(first, first - 1)
        if last > done.last:
            self._learn(await probe(self._held(), done.last + 1, last))
            self._searched = Gap(done.first, last)
        return clip(self._known, first, last)

    def _held(self) -> Bus:
        bus = self._bus()
        assert bus is not None
        return bus

    def _learn(self, gaps: Iterable[Gap]) -> None:
        self._known = merge([*self._known, *gaps])

    def _is_recent(self, bus: Bus) -> bool:
        return time.monotonic() < self._state_until and bus.epoch == self._epoch

    async def _look(self, state: dict[str, Any]) -> None:
        if self._is_looked_up(state):
            return
        async with self._looking.turn(self._held()):
            if self._is_looked_up(state):
                return
            deleted = state.get("num_deleted", 0)
            if deleted != self._deleted:
                await self._verify(await self._listed(state, deleted))
                self._deleted = deleted
            if self._is_time():
                await self._take_reports()
                self._looked_at = time.monotonic()
            await self._verify(clip(self._claims, state["first_seq"], state["last_seq"]))
            # A state may be older than what the auditor says by now.
            self._claims = clip(self._claims, state["last_seq"] + 1, self._next_damage - 1)

    def _is_looked_up(self, state: dict[str, Any]) -> bool:
        waiting = clip(self._claims, state["first_seq"], state["last_seq"])
        return state.get("num_deleted", 0) == self._deleted and not self._is_time() and not waiting

    def _is_time(self) -> bool:
        return time.monotonic() - self._looked_at >= LOOK_AGAIN_S

    async def _verify(self, claims: Iterable[Gap]) -> None:
        """The server claims what is there after some damages, and sequences that were lost can be given again."""
        for claim in merge(claims):
            if clip(self._known, *claim) != [claim]:
                self._learn(await probe(self._held(), *claim))

    async def _listed(self, state: dict[str, Any], deleted: int) -> list[Gap]:
        everything = Gap(state["first_seq"], state["last_seq"])
        if deleted > LISTED_AT_MOST:
            return [everything]
        answer = await self._held().api(f"STREAM.INFO.{LOG_STREAM}", {"deleted_details": True})
        told = answer["state"].get("deleted") or ()
        return clip(merge(Gap(sequence, sequence) for sequence in set(told)), *everything)

    async def _take_reports(self) -> None:
        """What the auditor says is not there."""
        more = True
        while more:
            found = await page.fetch(self._held(), DAMAGED, self._next_damage)
            told = [damaged for entry in found.entries if (damaged := _damage(entry)) is not None]
            claims = (damaged.gap for damaged in told if damaged.fault in GONE_FAULTS)
            self._claims = merge([*self._claims, *claims])
            self._cut = merge([*self._cut, *(damaged.gap for damaged in told if damaged.fault == CUT_FAULT)])
            self._next_damage = found.entries[-1].seq + 1 if found.entries else self._next_damage
            more = found.pending > 0 and bool(found.entries)


_by_bus: weakref.WeakKeyDictionary[Bus, Gaps] = weakref.WeakKeyDictionary()


def _damage(entry: Entry) -> _Damaged | None:
    try:
        damaged = msgspec.json.decode(entry.data, type=_Told).data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return damaged if damaged.first_sequence <= damaged.last_sequence else None
