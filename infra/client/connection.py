"""The way in for Python programs."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from contracts import codec, subjects
from contracts.commands.sandbox import CreateSandbox
from contracts.errors import Invalid
from contracts.ids import is_token
from contracts.queries import ANSWERS, EventList, GetTerminal, ListEvents, ListSandboxes, SandboxList, Terminal
from contracts.spec import SandboxSpec
from contracts.vitals import PROGRESS, Progress
from infra.access import open_as
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.client.orders import publish
from infra.client.sandbox import Sandbox, brought_up, load_state
from infra.ids import new_id
from infra.settings import Settings, load


class Cloche:
    """A connection. Commands are durable once a call has returned; reading needs no service but NATS itself."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    @staticmethod
    @asynccontextmanager
    async def connect(settings: Settings | None = None) -> AsyncIterator["Cloche"]:
        """To the embedded default of `CLOCHE_DATA`, or to `CLOCHE_URL`. Raises `Unavailable` when none answers."""
        async with open_as(settings or load(os.environ), "client") as bus:
            yield Cloche(bus)

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
        sandbox = id or new_id("sb")
        if not is_token(sandbox):
            raise Invalid(f"{sandbox!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")
        order = CreateSandbox(spec=msgspec.Raw(codec.encode(spec or {})))
        async with _hearing(self.bus, sandbox, on_progress):
            command = await publish(self.bus, subjects.ANY_NODE, sandbox, order)
            return Sandbox(self.bus, await brought_up(self.bus, sandbox, command))

    async def sandbox(self, sandbox: str) -> Sandbox:
        """Raises `SandboxNotFound`. Removed sandboxes are found too: their record stays."""
        if not is_token(sandbox):
            raise Invalid(f"{sandbox!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")
        return Sandbox(self.bus, await load_state(self.bus, sandbox))

    async def sandboxes(self, query: ListSandboxes | None = None) -> SandboxList:
        answer: SandboxList = await self._ask("sandboxes", query or ListSandboxes())
        return answer

    async def recent_events(self, query: ListEvents) -> EventList:
        answer: EventList = await self._ask("events", query)
        return answer

    async def terminal(self, query: GetTerminal) -> Terminal:
        answer: Terminal = await self._ask("terminal", query)
        return answer

    async def _ask(self, verb: str, query: msgspec.Struct) -> Any:
        return await ask(self.bus, subjects.state_rpc(verb), query, ANSWERS[verb])


@asynccontextmanager
async def _hearing(bus: Bus, sandbox: str, call: Callable[[str], None] | None) -> AsyncIterator[None]:
    if call is None:
        yield
        return

    def heard(_subject: bytes, _reply: bytes, data: bytes, _headers: bytes | None) -> None:
        with suppress(Invalid):
            call(codec.decode(data, Progress).line)

    tap = await bus.tap(subjects.vitals(sandbox, PROGRESS), heard)
    try:
        yield
    finally:
        await bus.client.untap(tap)
