"""What the log lacks, asked for often."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from contracts.errors import Unavailable
from infra.bus import gaps, in_turn
from infra.bus.connection import Bus
from infra.bus.gaps import Gap, Gaps
from infra.bus.log_state import state_of
from infra.bus.out_stream import OutStream
from tests.bus.filling import fill
from tests.bus.servers import nats_in

LOST = [Gap(11, 11)]


class Claimed:
    """A log that the auditor says something of: its server says nothing."""

    def __init__(self, bus: Bus, state: dict[str, Any]) -> None:
        self.gaps = Gaps.of(bus)
        self.state = state

    async def known(self, last: int = 20) -> list[Gap]:
        return await self.gaps.known({**self.state, "last_seq": last}, 1, 20)


@pytest_asyncio.fixture
async def claimed(tmp_path: Path) -> AsyncIterator[Claimed]:
    async with nats_in(tmp_path, provisioned=False) as server:
        admin = await server.connect("admin")
        config = {"name": "CLOCHE_LOG", "subjects": ["cloche.log.>"], "storage": "file", "allow_direct": True}
        await admin.api("STREAM.CREATE.CLOCHE_LOG", config)
        await fill(await server.connect("executor"), 20)
        await admin.api("STREAM.MSG.DELETE.CLOCHE_LOG", {"seq": 11})
        told = {"data": {"first_sequence": 11, "last_sequence": 11, "fault": "missing"}}
        async with OutStream(admin) as out:
            await out.send(gaps.DAMAGED, json.dumps(told).encode(), "told")
        client = await server.connect("client")
        state = await state_of(client)
        del state["num_deleted"]
        yield Claimed(client, state)


class Probes:
    """Of the real one, and when it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = asyncio.Event()
        self.may_go = asyncio.Event()
        self.fail = False
        self.count = 0
        self._real = gaps.probe
        monkeypatch.setattr(gaps, "probe", self._probe)

    async def _probe(self, bus: Bus, first: int, last: int) -> list[Gap]:
        self.count += 1
        self.asked.set()
        await self.may_go.wait()
        if self.fail:
            raise Unavailable("no answer")
        return await self._real(bus, first, last)


async def test_what_was_looked_for_a_moment_ago_is_answered_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream without `deny_delete` stands in for a store that has lost a message."""
    async with nats_in(tmp_path, provisioned=False) as server:
        admin = await server.connect("admin")
        config = {"name": "CLOCHE_LOG", "subjects": ["cloche.log.>"], "storage": "file", "allow_direct": True}
        await admin.api("STREAM.CREATE.CLOCHE_LOG", config)
        await fill(await server.connect("executor"), 20)
        client = await server.connect("client")
        assert await Gaps.of(client).lately(1, 20) == []
        await admin.api("STREAM.MSG.DELETE.CLOCHE_LOG", {"seq": 11})
        assert await Gaps.of(client).lately(1, 20) == []
        late = await server.connect("client")
        assert await Gaps.of(late).lately(1, 20) == [Gap(11, 11)]
        assert await Gaps.of(late).lately(12, 20) == []

        monkeypatch.setattr(gaps, "LOOK_AGAIN_S", 0.0)
        again = await server.connect("client")
        assert await Gaps.of(again).lately(1, 20) == [Gap(11, 11)]
        await admin.api("STREAM.MSG.DELETE.CLOCHE_LOG", {"seq": 14})
        assert await Gaps.of(again).lately(1, 20) == [Gap(11, 11), Gap(14, 14)]


async def test_what_the_auditor_says_is_looked_for_again_when_that_failed(
    claimed: Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_turn, "FAILED_FOR_S", 0.0)
    probes = Probes(monkeypatch)
    probes.may_go.set()
    probes.fail = True
    with pytest.raises(Unavailable):
        await claimed.known()
    probes.fail = False
    assert await claimed.known() == LOST


async def test_two_that_ask_at_the_same_time_get_the_same_answer(
    claimed: Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = Probes(monkeypatch)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(claimed.known())
        await probes.asked.wait()
        second = tasks.create_task(claimed.known())
        done, _ = await asyncio.wait({second}, timeout=0.3)
        assert not done
        probes.may_go.set()
    assert (first.result(), second.result()) == (LOST, LOST)
    assert probes.count == 1


async def test_a_failure_is_waited_for_once_by_however_many_ask(
    claimed: Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = Probes(monkeypatch)
    probes.fail = True
    probes.may_go.set()
    found = await asyncio.gather(*(claimed.known() for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in found] == [Unavailable] * 5
    assert probes.count == 1


async def test_what_the_auditor_says_is_kept_for_whoever_knows_a_newer_state_of_the_log(claimed: Claimed) -> None:
    assert await claimed.known(last=5) == []
    assert await claimed.known() == LOST
