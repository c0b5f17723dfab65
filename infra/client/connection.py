"""The way in for Python programs."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from contracts import codec, subjects
from contracts.commands.sandbox import CreateSandbox
from contracts.errors import Invalid, SandboxNotFound
from contracts.ids import is_token
from contracts.partitions import origin_in, require_same
from contracts.queries import ANSWERS, EventList, GetTerminal, ListEvents, ListSandboxes, SandboxList, Terminal
from contracts.spec import SandboxSpec
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.client.hearing import hearing
from infra.client.orders import publish
from infra.client.partitions import Partitions, open_partitions
from infra.client.sandbox import Sandbox, brought_up, load_state
from infra.configuration import load
from infra.settings import Settings

if TYPE_CHECKING:
    from contracts.replays import ReplayList
    from infra.client.everything import Told
    from infra.client.replays import Replay
    from infra.moments import Moment


class Cloche:
    """A connection. Commands are durable once a call has returned; reading needs no service but NATS itself."""

    def __init__(self, bus: Bus | Partitions) -> None:
        self._partitions = Partitions.undivided(bus) if isinstance(bus, Bus) else bus

    @staticmethod
    @asynccontextmanager
    async def connect(settings: Settings | None = None) -> AsyncIterator["Cloche"]:
        """To the embedded default of `CLOCHE_DATA`, or to `CLOCHE_URL`, and to every partition there.

        Raises `Unavailable` when none answers, `Invalid` where the store has another number of partitions.
        """
        async with open_partitions(settings or load(os.environ), "client") as partitions:
            yield Cloche(partitions)

    @property
    def bus(self) -> Bus:
        """The one that there is. Raises `Invalid` where the log is divided: then `bus_of` a sandbox, or `parts`."""
        return self._partitions.only

    def bus_of(self, sandbox: str) -> Bus:
        """The one by which a sandbox is reached, whether it exists or not."""
        return self._partitions.of(sandbox)

    @property
    def is_connected(self) -> bool:
        """To every partition."""
        return all(bus.is_connected for bus in self._partitions.buses.values())

    @property
    def is_divided(self) -> bool:
        """There are several logs here, and `bus` is none of them."""
        return len(self._partitions.buses) > 1

    def number_of(self, sandbox: str) -> int:
        """Of its partition. Raises `Invalid` for one that is not open here."""
        return self._partitions.number_of(sandbox)

    def require_beside(self, sandbox: str, origin: str) -> None:
        """Raises `Invalid` for an id that a sandbox which begins as `origin` cannot have."""
        require_same(origin, sandbox, self._partitions.count)

    def holds(self, sandbox: str) -> bool:
        """Whether it belongs to a partition that is open here."""
        return self._partitions.holds(sandbox)

    @property
    def parts(self) -> dict[int, "Cloche"]:
        """Each partition by itself, by its number; where the log is not divided, this alone."""
        count = self._partitions.count
        return {number: Cloche(Partitions({number: bus}, count)) for number, bus in self._partitions.buses.items()}

    async def create(
        self,
        spec: SandboxSpec | dict[str, Any] | None = None,
        *,
        id: str | None = None,  # noqa: A002
        on_progress: Callable[[str], None] | None = None,
    ) -> Sandbox:
        """Make a sandbox and wait until it runs. A dict names only what differs from the node's defaults.

        `on_progress` hears what is being done meanwhile, such as the pull of an image; lines may be lost.

        Raises `Invalid` for a bad specification, `SandboxInvalidState` when the id is taken, and the sandbox's own
        error when it cannot be made.
        """
        encoded = codec.encode(spec or {})
        sandbox = self._chosen(id, origin_in(encoded))
        bus, order = self.bus_of(sandbox), CreateSandbox(spec=msgspec.Raw(encoded))
        async with hearing(bus, sandbox, on_progress):
            command = await publish(bus, subjects.ANY_NODE, sandbox, order)
            return Sandbox(bus, await brought_up(bus, sandbox, command))

    async def fork(
        self,
        sandbox: str,
        *,
        at: "Moment",
        overrides: SandboxSpec | dict[str, Any] | None = None,
        id: str | None = None,  # noqa: A002
        on_progress: Callable[[str], None] | None = None,
    ) -> Sandbox:
        """Make a sandbox that begins as another was at a sequence of the log, or a time, and wait until it runs.

        Its files and its specification are those of then, and a run of an agent in it may go on from one of then
        (`agent.start(resume=…)`). `overrides` names what of the specification is to be different. The other one may be
        stopped or removed, and is left as it is.

        Raises `SandboxNotFound` where there was none then, `Invalid` where nothing of its files is on record then,
        and what `create` raises.
        """
        from infra.client.forking import fork

        return await fork(self.bus_of(sandbox), sandbox, at, overrides, self._chosen(id, sandbox), on_progress)

    async def sandbox(self, sandbox: str) -> Sandbox:
        """Raises `SandboxNotFound`. Removed sandboxes are found too: their record stays; imported ones, for reading."""
        if not is_token(sandbox):
            raise Invalid(f"{sandbox!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")
        bus = self.bus_of(sandbox)
        try:
            return Sandbox(bus, await load_state(bus, sandbox))
        except SandboxNotFound:
            from infra.client.imported import imported_sandbox

            return await imported_sandbox(bus, sandbox)

    async def sandboxes(self, query: ListSandboxes | None = None) -> SandboxList:
        """By id, of every partition."""
        from infra.client.listing import merged

        wanted = query or ListSandboxes()
        buses = self._partitions.buses.values()
        return merged(await asyncio.gather(*(self._ask(bus, "sandboxes", wanted) for bus in buses)), wanted.limit)

    async def recent_events(self, query: ListEvents) -> EventList:
        answer: EventList = await self._ask(self.bus_of(query.sandbox), "events", query)
        return answer

    def everything(
        self, cursors: Mapping[int, int] | None = None, *, types: Sequence[str] = (), follow: bool = False
    ) -> AsyncGenerator["Told", None]:
        """Events of all sandboxes; `cursors` has the sequence to continue from for each partition.

        Each partition comes in its own order, and so does each sandbox; they among each other by time.
        """
        from infra.client.everything import everything

        return everything(self._partitions.buses, cursors or {}, types, follow=follow)

    async def terminal(self, query: GetTerminal) -> Terminal:
        answer: Terminal = await self._ask(self.bus_of(query.sandbox), "terminal", query)
        return answer

    def replay(
        self,
        sandbox: str,
        *,
        speed: float = 1.0,
        start: "Moment" = 1,
        end: "Moment | None" = None,
        max_idle_ms: int | None = None,
        types: Sequence[str] = (),
        loop: bool = False,
        paused: bool = False,
        keep: bool = False,
    ) -> AbstractAsyncContextManager["Replay"]:
        """Play a sandbox's past again: `async with cloche.replay("sb", speed=4) as replay: async for event in replay`.

        Others may `join` it. It is stopped when this is left, unless `keep`. Raises `SandboxNotFound`, `Invalid` where
        nothing is on record there, `SandboxResourceLimitExceeded` when too many are under way.
        """
        # Few need it.
        from infra.client.replays import start_order, started

        order = start_order(
            speed=speed, start=start, end=end, max_idle_ms=max_idle_ms, types=types, loop=loop, paused=paused
        )
        return started(self.bus_of(sandbox), sandbox, order, keep=keep)

    def join(self, replay: str) -> AbstractAsyncContextManager["Replay"]:
        """Follow a replay that is under way: its `screens` first, then by iteration every event that comes after them.

        Raises `Invalid` for one that is not there.
        """
        from infra.client.replays import joined

        return joined(tuple(self._partitions.buses.values()), replay)

    async def replays(self, sandbox: str | None = None) -> "ReplayList":
        """Those that are under way, and those that ended within the last minutes. Raises `Unavailable`."""
        from infra.client.replays import all_listed

        buses = self._partitions.buses.values() if sandbox is None else (self.bus_of(sandbox),)
        return await all_listed(buses, sandbox)

    def _chosen(self, sandbox: str | None, origin: str | None) -> str:
        """The id of a sandbox that is to be made. Raises `Invalid` for what is none, or none beside its origin."""
        if sandbox is None:
            return self._partitions.new_sandbox() if origin is None else self._partitions.new_beside(origin)
        if not is_token(sandbox):
            raise Invalid(f"{sandbox!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")
        if origin is not None:
            self.require_beside(sandbox, origin)
        return sandbox

    async def _ask(self, bus: Bus, verb: str, query: msgspec.Struct) -> Any:
        return await ask(bus, subjects.state_rpc(verb), query, ANSWERS[verb])
