"""Which node signs the log is another one after the first was killed, and what it signs leads back to the first key."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from contracts.events.audit import AuditHeir
from infra.bus.connection import Bus
from tests.audit.rig import checkpoints, facts, write
from tests.bus.servers import Server, nats_in, until
from tests.cli.command_line import CommandLine
from tests.nodes.processes import PATIENCE_S, cleaned, node_of, out_of, said_by, until_up, values_of

pytestmark = pytest.mark.timeout(400)


@asynccontextmanager
async def _up(server: Server, data: Path, node: str) -> AsyncIterator[CommandLine]:
    with node_of(values_of(server, data, node)) as line:
        await asyncio.to_thread(until_up, line)
        yield line


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
    one, two = tmp_path / "n1", tmp_path / "n2"
    for data in (one, two):
        data.mkdir()
        (data / "cloche.toml").write_text("[audit]\ncheckpoint_s = 0.05\n")
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_in(tmp_path / "hub", nodes=("n1", "n2")))
        await stack.enter_async_context(cleaned(one))
        await stack.enter_async_context(cleaned(two))
        writer = await server.connect("executor")
        async with _up(server, one, "n1") as killed:
            trusted = await _first_key(writer)
            second = await stack.enter_async_context(_up(server, two, "n2"))
            heir = await _heir_of(writer, "n2", key=trusted)
            killed.send_signal(signal.SIGKILL)
        await write(writer, 5)
        await _signs(writer, heir)

        async with _up(server, one, "n1"):
            again = await _heir_of(writer, "n1", key=heir)
            (state,) = await asyncio.to_thread(said_by, values_of(server, one, "n1"), "audit", "--json")
            assert [each["key"] for each in state["keys"]] == [trusted, heir]
            assert state["keys"][-1]["heirs"] == [{"node": "n1", "key": again}]
            text = await asyncio.to_thread(out_of, values_of(server, one, "n1"), "audit")
            assert f"heirs       node n1, key {again[:16]}…\n" in text
            second.send_signal(signal.SIGTERM)
            await asyncio.to_thread(second.wait, PATIENCE_S)
            await write(writer, 5, name="again")
            await _signs(writer, again)
            (verdict,) = await asyncio.to_thread(
                said_by, values_of(server, two, "n2"), "verify", "--key", trusted, "--json"
            )
        assert verdict["findings"] == []
        assert verdict["keys"] == [trusted, heir, again]
