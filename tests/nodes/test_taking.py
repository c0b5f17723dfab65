"""What a node is about to have counts as what it has, for a drain and for whoever asks next."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from contracts.commands.node import DrainNode
from contracts.commands.sandbox import CreateSandbox
from contracts.errors import Conflict, Invalid, SandboxResourceLimitExceeded
from contracts.events.node import NodeDrained, NodeKept
from contracts.events.sandbox import SandboxCreating, SandboxPaused
from contracts.message import Fact
from contracts.state import Status
from infra.client.nodes import drain, nodes
from infra.client.orders import publish
from infra.client.sandbox import brought_up
from tests.bus.servers import until
from tests.nodes.one import CONFIG, One, one_in

pytestmark = pytest.mark.timeout(120)


async def _drained(one: One) -> None:
    """The drain has begun, and everybody may know it."""
    async for _ in drain(one.bus, "n1", DrainNode()):
        break

    async def is_heard() -> bool:
        (seen,) = await nodes(one.bus)
        return seen.vitals is not None and seen.vitals.draining

    await until(is_heard)


class Gate:
    """Holds up the making of one sandbox, until it is opened."""

    def __init__(self, sandbox: str) -> None:
        self._sandbox = sandbox
        self.reached, self.opened = asyncio.Event(), asyncio.Event()

    async def __call__(self, sandbox: str, fact: Fact) -> None:
        if sandbox == self._sandbox and isinstance(fact, SandboxCreating):
            self.reached.set()
            await self.opened.wait()


async def test_a_sandbox_that_is_about_to_appear_is_waited_for_and_then_has_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate("sb")
    async with one_in(tmp_path, monkeypatch, gate) as one:
        await publish(one.bus, "any", "sb", CreateSandbox())
        await gate.reached.wait()
        await _drained(one)
        gate.opened.set()
        told = await one.told(NodeDrained, NodeKept)
        assert isinstance(told, NodeKept), "nobody else is there to have it"
        assert (told.sandbox, (await one.state("sb")).status) == ("sb", Status.RUNNING)


async def test_a_sandbox_whose_freezing_cannot_be_told_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def spoil(_: str, fact: Fact) -> None:
        if isinstance(fact, SandboxPaused):
            raise Conflict("somebody else has moved it")

    async with one_in(tmp_path, monkeypatch, spoil) as one:
        await brought_up(one.bus, "sb", await publish(one.bus, "any", "sb", CreateSandbox()))
        await _drained(one)
        assert "somebody else has moved it" in str(await one.told(NodeKept))
        assert (await one.seen("sb"), (await one.state("sb")).status) == ("running", Status.RUNNING)


async def test_of_two_that_name_a_node_with_one_place_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate("first")
    async with one_in(tmp_path, monkeypatch, gate, f"max_sandboxes = 1\n{CONFIG}") as one:
        first = await publish(one.bus, "n1", "first", CreateSandbox())
        await gate.reached.wait()
        second = await publish(one.bus, "n1", "second", CreateSandbox())
        with pytest.raises(SandboxResourceLimitExceeded, match="node 'n1' has no room"):
            await brought_up(one.bus, "second", second)
            raise AssertionError
        gate.opened.set()
        assert (await brought_up(one.bus, "first", first)).status is Status.RUNNING


async def test_who_names_a_node_is_told_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_: str, __: Fact) -> None:
        pass

    config = CONFIG.replace("[node]", "[node]\nmemory_mb = 1100\ncpus = 100")
    async with one_in(tmp_path, monkeypatch, nothing, config) as one:
        for name, spec, words in (
            ("large", {"resources": {"memory_mb": 2048}}, "node 'n1' lacks 2048 MB of memory"),
            ("far", {"node_labels": {"zone": "b"}}, r"node 'n1' lacks label zone=b \(has a\)"),
        ):
            command = await publish(one.bus, "n1", name, CreateSandbox(spec=msgspec.Raw(msgspec.json.encode(spec))))
            with pytest.raises(Invalid, match=words):
                await brought_up(one.bus, name, command)
        for name in ("one", "two"):
            await brought_up(one.bus, name, await publish(one.bus, "n1", name, CreateSandbox()))
        with pytest.raises(SandboxResourceLimitExceeded, match="memory: 1024 of 1100 MB are promised"):
            await brought_up(one.bus, "three", await publish(one.bus, "n1", "three", CreateSandbox()))
