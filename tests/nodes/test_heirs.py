"""Which node signs the log is another one after the first was killed, and what it signs leads back to the first key."""

import asyncio
import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from contracts.events.audit import AuditHeir
from infra.bus.connection import Bus
from tests.audit.rig import checkpoints, facts, write
from tests.bus.servers import nats_in, until
from tests.nodes.joined import JoinedNode, values_of

pytestmark = pytest.mark.timeout(400)

PATIENCE_S = 120.0
CONFIG = "[audit]\ncheckpoint_s = 0.05\n"


async def _heir_of(bus: Bus, node: str, *, key: str) -> str:
    """Its key, once that one has named it."""
    named: list[str] = []

    async def is_named() -> bool:
        named[:] = [each.next for each in await facts(bus, AuditHeir) if (each.key, each.node) == (key, node)]
        return bool(named)

    await until(is_named, seconds=PATIENCE_S)
    return named[-1]


async def _signs(bus: Bus, key: str) -> None:
    async def does() -> bool:
        return any(each.key == key for each in await checkpoints(bus))

    await until(does, seconds=PATIENCE_S)


async def _first_key(bus: Bus) -> str:
    async def is_proven() -> bool:
        return bool(await checkpoints(bus))

    await until(is_proven, seconds=PATIENCE_S)
    return (await checkpoints(bus))[0].key


async def test_a_node_that_is_killed_is_followed_by_its_heir_and_follows_that_one_later(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_in(tmp_path / "hub", nodes=("n1", "n2")))
        one, two = (JoinedNode(name, tmp_path / name, values_of(server), CONFIG) for name in ("n1", "n2"))
        for node in (one, two):
            stack.push_async_callback(node.aclose)
        writer = await server.connect("executor")
        await one.start()
        trusted = await _first_key(writer)
        await two.start()
        heir = await _heir_of(writer, "n2", key=trusted)
        await one.end()
        await write(writer, 5)
        await _signs(writer, heir)

        await one.start()
        again = await _heir_of(writer, "n1", key=heir)
        state = json.loads(await asyncio.to_thread(one.cloche, "audit", "--json"))
        assert [each["key"] for each in state["keys"]] == [trusted, heir]
        assert state["keys"][-1]["heirs"] == [{"node": "n1", "key": again}]
        text = await asyncio.to_thread(one.cloche, "audit")
        assert f"heirs       node n1, key {again[:16]}…\n" in text
        await two.end(signal.SIGTERM)
        await write(writer, 5, name="again")
        await _signs(writer, again)
        verdict = json.loads(await asyncio.to_thread(two.cloche, "verify", "--key", trusted, "--json"))
        assert verdict["findings"] == []
        assert verdict["keys"] == [trusted, heir, again]
