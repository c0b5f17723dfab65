"""Signs of life of sandboxes, as a program outside sees them. They may be lost, and they expire."""

import asyncio
import datetime
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from contracts import codec, subjects
from contracts.errors import Invalid, Unavailable
from contracts.events.health import VitalsHeartbeat, VitalsMetrics
from contracts.streams import VITALS_STREAM
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.live import Live
from infra.bus.page import Entry

KINDS = ("heartbeat", "metrics")
AT_ONCE = 400
"""Sandboxes in one request: with two kinds each, the server takes no more than about 500."""
LOOK_AGAIN_S = 30.0
ASK_AGAIN_S = 0.5


class Vitals(Struct, frozen=True, kw_only=True):
    """The newest that is known of one sandbox."""

    beat_at: datetime.datetime | None = None
    metrics: VitalsMetrics | None = None
    measured_at: datetime.datetime | None = None

    @property
    def seen_at(self) -> datetime.datetime | None:
        """When whoever watches over it last found it."""
        return max((at for at in (self.beat_at, self.measured_at) if at is not None), default=None)


async def newest(bus: Bus, sandboxes: Sequence[str]) -> dict[str, Vitals]:
    """The newest vitals of those that have any: one request for hundreds of sandboxes. Raises `Unavailable`."""
    known: dict[str, Vitals] = {}
    for first in range(0, len(sandboxes), AT_ONCE):
        some = sandboxes[first : first + AT_ONCE]
        wanted = [subjects.vitals(sandbox, kind) for sandbox in some for kind in KINDS]
        for entry in await page.fetch_lasts(bus, wanted, stream=VITALS_STREAM):
            note(known, entry)
    return known


def note(known: dict[str, Vitals], entry: Entry) -> None:
    """What cannot be read, or is older than what is known, changes nothing."""
    try:
        head = codec.decode_head(entry.data)
        fact = codec.decode_fact(head)
    except Invalid:
        return
    before = known.get(head.sandboxid, Vitals())
    match fact:
        case VitalsHeartbeat() if before.beat_at is None or head.time >= before.beat_at:
            known[head.sandboxid] = replace(before, beat_at=head.time)
        case VitalsMetrics() if before.measured_at is None or head.time >= before.measured_at:
            known[head.sandboxid] = replace(before, metrics=fact, measured_at=head.time)


async def follow(bus: Bus, known: dict[str, Vitals], sandboxes: Callable[[], Iterable[str]]) -> None:
    """For ever: `known` has what is newest. What was missed while the connection was lost is looked up again."""
    filters = [subjects.vitals_of_all(kind) for kind in KINDS]
    async with Live.open(bus, filters) as live:
        while True:
            live.reset()
            try:
                known |= await newest(bus, list(sandboxes()))
            except Unavailable:
                await asyncio.sleep(ASK_AGAIN_S)
                continue
            while entry := await live.next(LOOK_AGAIN_S):
                note(known, entry)
