"""A log with limits forgets what it was told of nodes: those that are there tell it again in time."""

from functools import partial
from pathlib import Path

import pytest

from contracts import subjects
from contracts.commands.node import DrainNode
from contracts.errors import Conflict
from contracts.events.node import NodeDraining, NodeJoined, NodeLost
from contracts.message import Fact
from contracts.nodes import NodeRecord, Standing
from contracts.streams import LOG_STREAM
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.bus.wearing import is_worn
from infra.client.nodes import drain
from infra.journal import Journal
from infra.node_identity import read_identity
from infra.nodes import NodeLog
from tests.bus.servers import nats_in, until
from tests.nodes.one import one_in
from tests.services.node import Service

KEPT = 24
"""Events that the log has room for, and so often everything is told anew."""


async def _remembers(admin: Bus, most: int) -> None:
    config = (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
    await admin.api(f"STREAM.UPDATE.{LOG_STREAM}", config | {"max_msgs": most})


async def _other_things_happen(bus: Bus, number: int, since: int) -> None:
    for each in range(number):
        await append(bus, "cloche.log.sb.command.noise.e", b"{}", f"noise.{since + each}")


async def _record(bus: Bus) -> NodeRecord:
    """As whoever begins to read now finds it."""
    return (await NodeLog(bus).read()).get("n1", NodeRecord(node="n1"))


async def _stands_firm(bus: Bus, standing: Standing) -> bool:
    record, bounds = await _record(bus), await reader.bounds(bus)
    needed = min(record.named, record.since) if standing.gives_away else record.named
    return record.standing is standing and bool(record.identity) and not is_worn(needed, bounds)


async def _nothing(_: str, __: Fact) -> None:
    pass


@pytest.mark.parametrize("standing", [Standing.JOINED, Standing.DRAINED])
async def test_whose_a_name_is_and_that_the_node_is_drained_outlive_the_log_that_first_told_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standing: Standing
) -> None:
    async with one_in(tmp_path, monkeypatch, _nothing) as one:
        admin, others = await one.server.connect("admin"), await one.server.connect("executor")
        if standing is Standing.DRAINED:
            async for news in drain(one.bus, "n1", DrainNode(reason="repair", grace_ms=1)):
                if news.record.standing is standing:
                    break
        await _remembers(admin, KEPT)
        for turn in range(12):
            await _other_things_happen(others, KEPT // 4, turn * KEPT)
            await until(partial(_stands_firm, one.bus, standing))
        record = await _record(one.bus)
        assert (record.standing, record.identity) == (standing, read_identity(one.data))
        assert record.reason == ("repair" if standing is Standing.DRAINED else "")
        executor = Service("executor", one.data, one.values)
        await executor.start()
        await executor.stop()


async def test_of_a_node_of_which_the_log_has_nothing_any_more_it_can_be_told_that_it_is_gone(tmp_path: Path) -> None:
    async with nats_in(tmp_path, nodes=("n1", "n2")) as server:
        admin, spawner, others = [await server.connect(user) for user in ("admin", "spawner", "executor")]
        journal, log = Journal(spawner, service="spawner", node="n2"), NodeLog(spawner)
        await log.tell(journal, "n1", NodeJoined(node="n1", identity="a"))
        await log.tell(journal, "n1", NodeDraining(node="n1"))
        await _other_things_happen(others, 3, 0)
        await _remembers(admin, 1)
        lost = NodeLost(node="n1", reason="burnt", noticed_by="n2")
        with pytest.raises(Conflict):
            await log.tell(journal, "n1", lost)
        assert log.get("n1").standing is Standing.DRAINING
        await log.tell(journal, "n1", lost)
        assert (await NodeLog(spawner).read())["n1"].standing is Standing.LOST
        assert log.get("n1").standing is Standing.LOST
        entry = await reader.last(spawner, subjects.node_events("n1"))
        assert entry is not None
        assert entry.seq == log.get("n1").sequence
