"""All sandboxes with what they use, once or for as long as somebody looks."""

import asyncio
import contextlib

from msgspec.structs import replace

from contracts import codec, subjects
from contracts.errors import Invalid, Unavailable
from contracts.proof import TERMINAL
from contracts.queries import ListSandboxes
from contracts.state import SandboxState, Status, apply
from infra import clock
from infra.bus import reader
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
        self._applied = 0
        self.changed = asyncio.Event()
        """Set when a sandbox has moved on."""

    @property
    def is_connected(self) -> bool:
        return self._cloche.bus.is_connected

    async def load(self, query: ListSandboxes) -> None:
        """Asks the read model, and for the newest vitals where there are any. Raises `Unavailable`."""
        query = replace(query, limit=PAGE)
        while True:
            page = await self._cloche.sandboxes(query)
            self._states |= {state.sandbox: state for state in page.sandboxes}
            # What was written while later pages came is read from the log again, and applied once.
            self._applied = self._applied or page.applied_sequence
            if not page.more:
                break
            query = replace(query, after=page.sandboxes[-1].sandbox)
        with contextlib.suppress(Unavailable):
            self._vitals |= await newest(self._cloche.bus, self.alive())

    def alive(self) -> list[str]:
        return [state.sandbox for state in self._states.values() if state.status in ALIVE]

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
            tasks.create_task(follow(self._cloche.bus, self._vitals, self.alive))
            tasks.create_task(self._follow_states())

    async def _follow_states(self) -> None:
        filters = [*subjects.events_of(family="sandbox"), *subjects.events_of(family="health")]
        for kind in ("started", *TERMINAL):
            filters += subjects.events_of(family="command", kind=kind, scope="*")
        for kind in RUN_KINDS:
            filters += subjects.events_of(family="agent", kind=kind, scope="*")
        async for entry in reader.read(self._cloche.bus, filters, self._applied + 1, follow=True):
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
