"""All sandboxes with what they use, once or for as long as somebody looks."""

import asyncio
import contextlib
from functools import partial

from msgspec.structs import replace

from contracts import codec, subjects
from contracts.errors import Invalid, Unavailable
from contracts.proof import TERMINAL
from contracts.queries import ListSandboxes
from contracts.state import SandboxState, Status, apply
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client import Cloche
from infra.client.vitals import Vitals, follow, newest
from services.cli.use import ALIVE, Seen, seen

PAGE = 500
RUN_KINDS = (
    "started", "waiting", "delivered", "paused", "resumed", "interrupted", "approval_requested", "approved", "rejected",
    "completed", "error",
)  # fmt: skip
"""What an agent is at; what it says meanwhile is bulk."""


class Board:
    """`every_s` is how often a sandbox is looked at: what is older is called old."""

    def __init__(self, cloche: Cloche, *, every_s: float) -> None:
        self._cloche = cloche
        self._every_s = every_s
        self._states: dict[str, SandboxState] = {}
        self._vitals: dict[str, Vitals] = {}
        self._applied: dict[int, int] = {}
        """By partition."""
        self.changed = asyncio.Event()
        """Set when a sandbox has moved on."""

    @property
    def is_connected(self) -> bool:
        return all(part.bus.is_connected for part in self._cloche.parts.values())

    async def load(self, query: ListSandboxes) -> None:
        """Asks the read model, and for the newest vitals where there are any. Raises `Unavailable`."""
        parts = self._cloche.parts
        await asyncio.gather(*(self._load(number, part, replace(query, limit=PAGE)) for number, part in parts.items()))

    async def _load(self, number: int, part: Cloche, query: ListSandboxes) -> None:
        found: list[str] = []
        while True:
            page = await part.sandboxes(query)
            self._states |= {state.sandbox: state for state in page.sandboxes}
            found += [state.sandbox for state in page.sandboxes if state.status in ALIVE]
            # What was written while later pages came is read from the log again, and applied once.
            self._applied.setdefault(number, page.applied_sequence)
            if not page.more:
                break
            query = replace(query, after=page.sandboxes[-1].sandbox)
        with contextlib.suppress(Unavailable):
            self._vitals |= await newest(part.bus, found)

    def _alive(self, part: Cloche) -> list[str]:
        return [name for name, state in self._states.items() if state.status in ALIVE and part.holds(name)]

    def rows(self) -> list[Seen]:
        """As of now, by name."""
        now = clock.now()
        return [
            seen(state, self._vitals.get(name), now=now, every_s=self._every_s)
            for name, state in sorted(self._states.items())
        ]

    async def follow(self) -> None:
        """For ever, through restarts of NATS and of every service."""
        async with asyncio.TaskGroup() as tasks:
            for number, part in self._cloche.parts.items():
                tasks.create_task(follow(part.bus, self._vitals, partial(self._alive, part)))
                tasks.create_task(self._follow_states(part.bus, self._applied.get(number, 0) + 1))

    async def _follow_states(self, bus: Bus, start: int) -> None:
        filters = [*subjects.events_of(family="sandbox"), *subjects.events_of(family="health")]
        for kind in ("started", *TERMINAL):
            filters += subjects.events_of(family="command", kind=kind, scope="*")
        for kind in RUN_KINDS:
            filters += subjects.events_of(family="agent", kind=kind, scope="*")
        async for entry in reader.read(bus, filters, start, follow=True):
            self._move(entry)

    def _move(self, entry: reader.Entry) -> None:
        """What cannot be read changes nothing here; `cloche verify` tells of it."""
        try:
            head = codec.decode_head(entry.data)
            state = apply(self._states.get(head.sandboxid), entry.seq, head)
        except Invalid:
            return
        if state is None:
            return
        if state.status == Status.REMOVED:
            self._states.pop(head.sandboxid, None)
            self._vitals.pop(head.sandboxid, None)
        else:
            self._states[head.sandboxid] = state
        self.changed.set()
