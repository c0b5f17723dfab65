"""Gates on a real server, without a proxy: what is asked, what is answered, and what the log says of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from contracts import codec, subjects
from contracts.commands.network import ApproveNetwork, RejectNetwork
from contracts.events.network import NetworkAllowed, NetworkAsked, NetworkBatch, NetworkDenied
from contracts.events.sandbox import SandboxCreated, SandboxCreating, SandboxNetworkChanged, SandboxStarted
from contracts.message import Command, Fact
from contracts.registry import command_tag
from contracts.spec import Isolation, Network, SandboxSpec
from contracts.state import SandboxState
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.ids import new_id
from infra.journal import Journal
from infra.proxy.port import Wanted
from infra.settings import Egress, Settings
from services.egress.gate import SandboxGate
from services.egress.gates import Gates
from tests.bus.servers import Server, nats_in

PINNED = Egress(
    networks=("127.7.0.0/16",),
    addresses={
        "good.test": ("127.7.0.1",),
        "new.test": ("127.7.0.2",),
        "inner.test": ("127.7.0.3", "10.0.0.1"),
        "meta.test": ("169.254.169.254",),
        "own.test": ("127.0.0.1",),
    },
)


def wanted(host: str = "good.test", port: int = 443, **more: Any) -> Wanted:
    values: dict[str, Any] = {"via": "http", "method": "GET", "path": "/x", **more}
    return Wanted(host=host, port=port, **values)


class Rig:
    """A sandbox `sb` on the log, and gates that can be killed."""

    def __init__(self, server: Server, place: Path, egress: Egress) -> None:
        self.server = server
        self._settings = Settings(data=place / "data", egress=egress)
        self._running: asyncio.Task[None] | None = None
        self._own: Bus | None = None
        self.bus: Bus
        self.gates: Gates
        self.state: SandboxState

    async def create(self, network: Network, sandbox: str = "sb", *, node: str = "local") -> None:
        spec = SandboxSpec(network=network)
        facts: list[Fact] = [
            SandboxCreating(spec=spec, isolation=Isolation.LOCAL, node=node),
            SandboxCreated(node=node, isolation=Isolation.LOCAL, workspace="/workspace"),
            SandboxStarted(instance="life-1"),
        ]
        await self._move(facts, sandbox)

    async def change(self, network: Network) -> None:
        await self._move([SandboxNetworkChanged(network=network)], "sb")
        self.gates.changed(self.state)

    async def _move(self, facts: Sequence[Fact], sandbox: str) -> None:
        spawner = await self.server.connect("spawner")
        journal = Journal(spawner, service="spawner", node="local")
        for fact in facts:
            await journal.append(journal.write(sandbox, fact, id=new_id("t")))
        state = await journal.lifecycle(sandbox)
        assert state is not None
        self.state = state

    async def start(self) -> None:
        self._own = await self.server.embedded.connect("egress")
        journal = Journal(self._own, service="egress", node="local")
        self.gates = await Gates(self._own, journal, self._settings).__aenter__()
        self._running = asyncio.create_task(self.gates.run())

    @property
    def gate(self) -> SandboxGate:
        return self.gates.gate(self.state)

    async def stop(self) -> None:
        """As a service that is told to."""
        await self._end()
        await self.gates.aclose()
        assert self._own is not None
        await self._own.aclose()

    async def die(self) -> None:
        """As by SIGKILL: nothing is finished, and what was in memory is gone."""
        await self._end()
        assert self._own is not None
        await self._own.aclose()

    async def _end(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def answer(self, order: ApproveNetwork | RejectNetwork, *, id: str | None = None, **head: Any) -> None:  # noqa: A002
        """As if it had come from the queue."""
        tag = command_tag(order)
        command = Command(id=id or new_id("c"), type=tag, time=clock.now(), sandboxid="sb", data=order)
        command = msgspec.structs.replace(command, **head)
        await self.gates.handle(f"cloche.cmd.local.sb.{tag}", codec.encode(command))

    async def facts(self, sandbox: str = "sb") -> list[Fact]:
        entries = reader.read(self.bus, subjects.events_of(sandbox, family="network"), 1, follow=False)
        read = [codec.decode_fact(codec.decode_head(entry.data)) async for entry in entries]
        return [fact for fact in read if fact is not None]

    async def requests(self) -> list[NetworkAllowed]:
        """Alone or in batches, in order."""
        told: list[NetworkAllowed] = []
        for fact in await self.facts():
            if isinstance(fact, NetworkBatch):
                told += fact.requests
            elif isinstance(fact, NetworkAllowed):
                told.append(fact)
        return told

    async def denials(self) -> list[NetworkDenied]:
        return [fact for fact in await self.facts() if isinstance(fact, NetworkDenied)]

    async def asked(self, count: int = 1) -> list[NetworkAsked]:
        """Waits until so many questions are on the log."""
        found: list[NetworkAsked] = []
        async for entry in reader.read(self.bus, ["cloche.log.sb.network.asked"], 1, follow=True):
            fact = codec.decode_fact(codec.decode_head(entry.data))
            assert isinstance(fact, NetworkAsked)
            found.append(fact)
            if len(found) == count:
                break
        return found

    async def until(self, kind: str, count: int = 1) -> None:
        """Waits until so many events of a kind are on the log."""
        seen = 0
        async for _ in reader.read(self.bus, [f"cloche.log.sb.network.{kind}"], 1, follow=True):
            seen += 1
            if seen == count:
                return


@asynccontextmanager
async def gates_in(place: Path, network: Network, egress: Egress = PINNED) -> AsyncIterator[Rig]:
    async with nats_in(place) as server:
        rig = Rig(server, place, egress)
        rig.bus = await server.connect("client")
        await rig.create(network)
        await rig.start()
        try:
            yield rig
        finally:
            await rig.stop()
