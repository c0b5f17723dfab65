"""A gate with scripted answers, which remembers what it was asked and told."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from infra.proxy import Refused, Wanted

LOCAL = ("127.0.0.1",)


class End(NamedTuple):
    status: int | None
    sent: int
    received: int
    error: str | None


class Refusal(NamedTuple):
    wanted: Wanted | None
    reason: str
    raw: str


class FakePassage:
    def __init__(self, wanted: Wanted, addresses: tuple[str, ...]) -> None:
        self.wanted = wanted
        self.addresses = addresses
        self.connections: list[str] = []
        self.over: asyncio.Future[End | str] = asyncio.get_running_loop().create_future()
        self.cut: Callable[[str], None]

    def connected(self, address: str) -> None:
        self.connections.append(address)

    def end(self, *, status: int | None, sent: int, received: int, error: str | None) -> None:
        self.over.set_result(End(status, sent, received, error))

    def deny(self, reason: str) -> None:
        self.over.set_result(reason)

    def on_cut(self, cut: Callable[[str], None]) -> None:
        self.cut = cut

    async def ended(self) -> End:
        over = await self.over
        assert isinstance(over, End), f"denied: {over}"
        return over


class FakeGate:
    """Lets through the names it is given, to the addresses they have."""

    def __init__(self, hosts: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.hosts = {"origin.test": LOCAL, "127.0.0.1": LOCAL} if hosts is None else hosts
        self.asked: list[Wanted] = []
        self.passages: list[FakePassage] = []
        self.refusals: list[Refusal] = []
        self.arrived = asyncio.Event()
        """Something was asked."""
        self.open = asyncio.Event()
        """Until then every answer is waited for."""
        self.open.set()
        self.cancelled = asyncio.Event()

    async def ask(self, wanted: Wanted) -> FakePassage:
        self.asked.append(wanted)
        self.arrived.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if wanted.host not in self.hosts:
            raise Refused("the host is not allowed", hint="allow it")
        passage = FakePassage(wanted, self.hosts[wanted.host])
        self.passages.append(passage)
        return passage

    def refused(self, wanted: Wanted | None, reason: str, raw: str = "") -> None:
        self.refusals.append(Refusal(wanted, reason, raw))
