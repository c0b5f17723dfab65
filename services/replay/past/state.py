"""Answers how a sandbox was at any sequence of the log, or at any time. Also one that is gone, or was imported."""

import datetime

from contracts import conversation, subjects, traffic
from contracts.codec import decode_fact, decode_head
from contracts.conversation import Conversation
from contracts.errors import Invalid, SandboxNotFound
from contracts.events.health import VitalsMetrics
from contracts.folding import Folded
from contracts.past import GetStateAt, StateAt
from contracts.state import UNUSABLE, SandboxState
from contracts.traffic import Traffic
from infra import clock
from infra.bus.connection import Bus
from infra.log.choosing import view_of
from infra.log.lacking import lacking
from infra.log.live import LiveView
from infra.log.view import LogView
from infra.moments import sequence_at
from services.replay.handlers import Answers
from services.replay.past.fitting import fitting
from services.replay.past.folder import Folder
from services.replay.past.use import use_at
from services.replay.projection import Projection


class StateInTime:
    def __init__(self, bus: Bus, folder: Folder, projection: Projection, *, health_s: float) -> None:
        self._bus = bus
        self._folder = folder
        self._projection = projection
        self._health_s = health_s

    def answers(self) -> Answers:
        return {"state": self.at}

    async def at(self, query: GetStateAt) -> StateAt:
        """Raises `SandboxNotFound`, `Invalid` (the log does not reach so far, it did not exist yet), `Unavailable`."""
        if query.at is not None and query.time is not None:
            raise Invalid("a sequence and a time are two moments: name one")
        view = await view_of(self._bus, query.sandbox)
        first = await view.first(subjects.events_of(query.sandbox)[0])
        if first is None and self._projection.get(query.sandbox) is None:
            raise SandboxNotFound(f"there is no sandbox {query.sandbox!r}")
        sequence = await self._sequence(view, query)
        folded = await self._folder.at(view, query.sandbox, sequence)
        if folded is None:
            folded = await self._remembered(view, query.sandbox, sequence)
        if folded is None and isinstance(view, LiveView):
            await self._must_have_begun(view, query.sandbox)
        if folded is None:
            begun = "" if first is None else f": the first that is known of it is sequence {first.seq}"
            raise Invalid(f"sandbox {query.sandbox!r} did not exist at sequence {sequence}{begun}")
        return fitting(
            StateAt(
                sequence=sequence,
                time=folded.state.last_event_at,
                state=folded.state,
                conversation=folded.conversation,
                traffic=folded.traffic,
                use=await self._use(view, query, sequence),
                lacking=() if first is None else await lacking(view, first.seq, sequence),
            )
        )

    async def _sequence(self, view: LogView, query: GetStateAt) -> int:
        if query.time is not None:
            return await sequence_at(self._bus, query.sandbox, query.time)
        last = (await view.bounds()).last
        if query.at is not None and query.at > last:
            raise Invalid(f"the log ends at sequence {last}: nothing is known of {query.at}")
        return last if query.at is None else query.at

    async def _remembered(self, view: LogView, sandbox: str, sequence: int) -> Folded | None:
        """Of one whose beginning the log has forgotten, as the read model knows it: only how it is now.

        Raises `Invalid` for an earlier moment.
        """
        known = self._projection.get(sandbox)
        forgotten = (await view.bounds()).first
        if known is None or not isinstance(view, LiveView) or known.first_sequence >= forgotten:
            return None
        if sequence < known.applied_sequence:
            raise Invalid(f"the log has forgotten how {sandbox!r} began: only how it is now can be told")
        return await _around(view, known, sequence)

    async def _must_have_begun(self, view: LogView, sandbox: str) -> None:
        """Raises `SandboxNotFound` where nothing is on record but what somebody wanted of it by mistake."""
        if await view.first(subjects.event(sandbox, "sandbox.creating")) is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox!r}, only orders for it that nobody could obey")

    async def _use(self, view: LogView, query: GetStateAt, sequence: int) -> VitalsMetrics | None:
        if not isinstance(view, LiveView):
            return None
        time = query.time or await self._time(view, query, sequence)
        return await use_at(self._bus, query.sandbox, min(time, clock.now()), every_s=self._health_s)

    async def _time(self, view: LogView, query: GetStateAt, sequence: int) -> datetime.datetime:
        """When the event with a sequence was stored; now, where none was asked for."""
        if query.at is None:
            return clock.now()
        entry = await view.first(subjects.LOG, start=sequence)
        return clock.now() if entry is None else entry.time


async def _around(view: LogView, state: SandboxState, sequence: int) -> Folded:
    """What the log still has of everything else."""
    said, passed = Conversation(), Traffic()
    async for entry in view.read(subjects.events_of(state.sandbox), end=sequence):
        try:
            head = decode_head(entry.data)
            fact = decode_fact(head)
            if fact is not None:
                said = conversation.apply(said, entry.seq, head, fact)
                passed = traffic.apply(passed, entry.seq, head, fact)
        except (Invalid, *UNUSABLE):
            continue
    return Folded(sequence=sequence, state=state, conversation=said, traffic=passed)
