"""An offer that nobody can take waits for as long as the nodes say, however often it is delivered meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contracts import codec, subjects
from contracts.errors import SandboxResourceLimitExceeded
from contracts.events.audit import DeadLetter
from contracts.streams import COMMANDS_STREAM, CRASH_LIMIT
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.bus.settle import GivenBack, Handler
from infra.journal import Journal
from services.spawner import routes
from services.spawner.routes import take_offers
from tests.bus.servers import nats_in


class FakeFullNode:
    """Gives an offer back `times` times, and then refuses it."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def handle(self, subject: str, raw: bytes) -> None:
        if self.left:
            self.left -= 1
            raise GivenBack(0.001)
        raise SandboxResourceLimitExceeded("no node had room")


@contextlib.asynccontextmanager
async def _taking(bus: Bus, handle: Handler, *, patience_s: float) -> AsyncIterator[None]:
    journal = Journal(bus, service="spawner", node="local")
    taken = take_offers(bus, handle, journal, hold_back_s=lambda: 0.0, patience_s=patience_s)
    task = asyncio.ensure_future(taken)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _letter(bus: Bus) -> DeadLetter:
    async for entry in reader.read(bus, [subjects.LOG], follow=True):
        fact = codec.decode_fact(codec.decode_head(entry.data))
        assert isinstance(fact, DeadLetter)
        return fact
    raise AssertionError


async def _offer(client: Bus) -> None:
    await append(client, "cloche.cmd.any.sb.sandbox.create", b"{}", "offer-1", stream=COMMANDS_STREAM)


async def test_an_offer_that_went_from_node_to_node_a_thousand_times_is_refused_for_the_room_that_it_lacks(
    tmp_path: Path,
) -> None:
    times = 1100
    async with nats_in(tmp_path) as server:
        bus, client = [await server.connect(user) for user in ("spawner", "client")]
        await _offer(client)
        async with _taking(bus, FakeFullNode(times).handle, patience_s=60):
            letter = await _letter(bus)
    assert (letter.reason.code, letter.delivered) == ("SANDBOX_RESOURCE_LIMIT_EXCEEDED", times + 1)


async def test_an_offer_that_never_comes_to_an_end_is_given_up_when_no_node_waits_for_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "SLACK_S", 0.0)
    async with nats_in(tmp_path) as server:
        bus, client = [await server.connect(user) for user in ("spawner", "client")]
        await _offer(client)
        async with _taking(bus, FakeFullNode(100_000).handle, patience_s=0):
            letter = await _letter(bus)
    assert (letter.reason.code, letter.delivered) == ("INVALID", CRASH_LIMIT + 1)
