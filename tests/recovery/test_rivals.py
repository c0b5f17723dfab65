"""Rivals that have decided on the same thing, each knowing nothing of the other, and speak at the same time.

They meet before they write, so that it is never luck which of them finds the other there.
"""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from contracts import codec, subjects
from contracts.commands.sandbox import CreateSandbox, RecoverSandbox
from contracts.errors import Conflict
from contracts.events.health import DeathCause, HealthDied
from contracts.events.sandbox import SandboxRecovering
from contracts.message import Fact
from contracts.state import SandboxState, Status
from contracts.streams import COMMANDS_STREAM
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.orders import publish
from infra.embedded import secrets
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from services.health_monitor.deaths import Deaths
from services.health_monitor.decide import Ending
from services.health_monitor.leases import Leases
from services.health_monitor.lives import Life
from services.health_monitor.told import HealthLog, Told
from services.spawner.app import SpawnerApp
from tests.bus.servers import Server, nats_in, stored, until
from tests.contracts.histories import CREATED, CREATING, STARTED
from tests.services.node import end_sandboxes, settings_in

pytestmark = [pytest.mark.timeout(60)]

SPEC = msgspec.Raw(b'{"isolation": "local", "resources": {"memory_mb": 512}, "network": {"mode": "none"}}')
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


class Meeting(Journal):
    """Of one of two spawners: it begins a recovery only when the other is about to."""

    def __init__(self, bus: Bus, service: str, node: str, barrier: asyncio.Barrier) -> None:
        super().__init__(bus, service=service, node=node)
        self._barrier = barrier
        self.conflicts = 0

    async def move(self, sandbox: str, fact: Fact, *, expected: int, command: str | None = None) -> int:
        if isinstance(fact, SandboxRecovering):
            await self._barrier.wait()
        try:
            return await super().move(sandbox, fact, expected=expected, command=command)
        except Conflict:
            self.conflicts += 1
            raise


@contextlib.asynccontextmanager
async def spawner_in(data: Path, server: Server, node: str) -> AsyncIterator[None]:
    values = {"CLOCHE_NODE": node, "CLOCHE_URL": server.url, "CLOCHE_CREDS": str(secrets.directory(server.data))}
    ready = asyncio.Event()
    serving = asyncio.create_task(SpawnerApp(settings_in(data, **values)).serve(ready.set))
    try:
        await ready.wait()
        yield
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await end_sandboxes(data)


async def is_running(journal: Journal) -> bool:
    state = await journal.lifecycle("sb")
    return state is not None and state.status == Status.RUNNING


async def test_of_two_spawners_that_begin_the_same_recovery_one_finds_itself_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals: list[Meeting] = []
    barrier = asyncio.Barrier(2)

    def meeting(bus: Bus, *, service: str, node: str) -> Meeting:
        journals.append(Meeting(bus, service, node, barrier))
        return journals[-1]

    monkeypatch.setattr("services.spawner.parts.Journal", meeting)
    async with (
        nats_in(tmp_path / "hub", nodes=("n1", "n2")) as server,
        spawner_in(tmp_path / "n1", server, "n1"),
        spawner_in(tmp_path / "n2", server, "n2"),
    ):
        client, admin = await server.connect("client"), await server.connect("admin")
        await publish(client, "n1", "sb", CreateSandbox(spec=SPEC))
        await until(partial(is_running, journals[0]))
        state = await journals[0].lifecycle("sb")
        assert state is not None
        died = RecoverSandbox(reason="it died", instance=state.instance)
        await asyncio.gather(*(publish(client, node, "sb", died) for node in ("n1", "n2")))
        await until(partial(is_idle, admin))
        assert sum(journal.conflicts for journal in journals) == 1
        told = reader.read(client, [subjects.lifecycle("sb")], 1, follow=False)
        kinds = [subjects.parse_event(entry.subject).kind async for entry in told]
        assert kinds == ["creating", "created", "started", "recovering", "recovered"]


async def is_idle(admin: Bus) -> bool:
    return await stored(admin, COMMANDS_STREAM) == 0


class MeetingLog(HealthLog):
    """Of one of two monitors: it tells of a death only when the other is about to."""

    def __init__(self, bus: Bus, journal: Journal, barrier: asyncio.Barrier) -> None:
        super().__init__(bus, journal)
        self._barrier = barrier
        self.knew: list[int] = []

    async def tell(self, sandbox: str, fact: Fact, *, knowing: Told, about: str | None) -> bool:
        self.knew.append(knowing.sequence)
        await self._barrier.wait()
        return await super().tell(sandbox, fact, knowing=knowing, about=about)


class Rival:
    """As much of a monitor as tells of deaths and has something done about them."""

    def __init__(self, bus: Bus, barrier: asyncio.Barrier, state: SandboxState) -> None:
        journal, lifecycles = Journal(bus, service="health_monitor", node="n1"), Lifecycles(bus)
        lifecycles.learn(state)
        self.log = MeetingLog(bus, journal, barrier)
        self.leases = Leases(bus, "n1", lifecycles)
        self._deaths = Deaths(bus, journal, self.log, self.leases, LONG_AGO)
        self._life = Life(state=state, since=state.applied_sequence, began=0.0)

    async def tell(self, cause: DeathCause) -> None:
        await self._deaths.tell(self._life, Ending(cause, "as it saw it"))


async def test_two_monitors_that_tell_the_same_death_tell_it_once_and_send_one_order(tmp_path: Path) -> None:
    barrier = asyncio.Barrier(2)
    async with nats_in(tmp_path, nodes=("n1",)) as server:
        spawner = Journal(await server.connect("spawner"), service="spawner", node="n1")
        for number, fact in enumerate([CREATING, CREATED, STARTED]):
            await spawner.append(spawner.write("sb", fact, id=f"sb.{number}"))
        state = await spawner.lifecycle("sb")
        assert state is not None
        bus, admin = await server.connect("health_monitor"), await server.connect("admin")
        one, other = Rival(bus, barrier, state), Rival(bus, barrier, state)
        await asyncio.gather(one.tell(DeathCause.KILLED), other.tell(DeathCause.UNKNOWN))
        assert (one.log.knew, other.log.knew) == ([0], [0]), "neither knew of the other"
        told = reader.read(bus, [subjects.health_events("sb")], 1, follow=False)
        assert [type(codec.decode_fact(codec.decode_head(entry.data))) async for entry in told] == [HealthDied]
        keeping = [asyncio.create_task(each.leases.keep()) for each in (one, other)]
        try:
            await until(lambda: one.leases.sent == other.leases.sent == 1)
            assert await stored(admin, COMMANDS_STREAM) == 1
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
