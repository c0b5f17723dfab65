"""A sandbox whose network is restricted has its way out before its first command, and again after everything."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

from contracts import subjects
from contracts.egress import Attach, Attached
from contracts.errors import Invalid, SandboxInvalidState, SandboxNotFound
from contracts.events.network import NetworkAttached, NetworkUnattached
from contracts.message import Fact
from contracts.spec import Isolation, Network
from contracts.state import SandboxState as SandboxLog
from contracts.state import Status
from infra.access import open_as
from infra.bus.connection import Bus
from infra.client import Cloche
from infra.client.asking import ask
from infra.journal import Journal
from infra.netns.entrance import Entered, Entrance
from infra.netns.errors import LifeIsOver
from infra.sandbox.base import Provider, SandboxState
from infra.sandbox.providers import load_provider
from services.egress.attaching import Tools
from services.egress.loop import Attachments
from tests.conformance.inside import a_sandbox
from tests.egress.clients import asks, asks_plainly, change, told, until_nobody, until_told
from tests.egress.gates_rig import Rig, gates_in
from tests.faults.docker_node import docker_node, spec
from tests.services.node import Node

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

DENIED = "HTTP/1.1 403"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    async with Node(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(node: Node) -> AsyncIterator[Cloche]:
    async with node.connect() as cloche:
        yield cloche


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bus(node: Node) -> AsyncIterator[Bus]:
    async with open_as(node.settings, "client") as bus:
        yield bus


async def test_the_first_command_finds_the_way_out_and_so_does_the_first_after_each_start(cloche: Cloche) -> None:
    sandbox = await cloche.create()
    assert await asks(sandbox) == DENIED
    assert "through egress: its network namespace is entered" in sandbox.state.enforcement["network"]
    await sandbox.stop(grace_ms=0)
    await sandbox.boot()
    assert await asks(sandbox) == DENIED
    await sandbox.recover()
    assert await asks(sandbox) == DENIED
    await until_told(sandbox, "network.attached", times=3)
    lives = [fact["instance"] for _, fact in await told(sandbox, "network.attached")]
    started = [fact["instance"] for _, fact in await told(sandbox, "sandbox.started", "sandbox.recovered")]
    assert lives == started
    assert await told(sandbox, "network.unattached") == []


async def test_where_there_is_no_way_out_nobody_listens(cloche: Cloche) -> None:
    sandbox = await cloche.create({"network": {"mode": "none"}})
    assert await asks(sandbox) == "nobody"
    assert sandbox.state.enforcement["network"] == "loopback only"
    assert await told(sandbox, "network.attached", "network.unattached") == []


async def test_the_routes_of_secrets_are_listened_for_only_where_there_are_any(cloche: Cloche) -> None:
    with_secret = await cloche.create({"secrets": [{"name": "api", "host": "api.example"}]})
    assert (await asks(with_secret, 3129)).startswith("HTTP/1.1 4")
    assert (await until_told(with_secret, "network.attached"))["routes"] == "127.0.0.1:3129"
    without = await cloche.create()
    assert await asks(without, 3129) == "nobody"


async def test_an_egress_that_was_killed_comes_back_to_every_sandbox_and_touches_nothing_else(
    node: Node, cloche: Cloche
) -> None:
    running = await cloche.create()
    paused = await cloche.create()
    counting = await running.start("echo begun; read line; echo $line", stdin=True)
    await paused.pause()
    await node.restart("egress")
    for sandbox in (running, paused):
        await until_told(sandbox, "network.attached", times=2)
    assert await asks(running) == DENIED
    await paused.resume()
    assert await asks(paused) == DENIED
    await counting.write(b"still here\n")
    assert (await counting.wait()).stdout == b"begun\nstill here\n"
    lives = {fact["instance"] for _, fact in await told(running, "network.attached")}
    assert lives == {running.state.instance}


HOLD = "import socket\ns = socket.create_server(('127.0.0.1', 3128))\nprint('up', flush=True)\ninput()"


async def test_without_egress_a_sandbox_begins_sealed_and_a_port_that_it_takes_is_told_once(
    node: Node, cloche: Cloche
) -> None:
    await node.services["egress"].kill()
    sandbox = await cloche.create()
    assert sandbox.state.enforcement["network"].endswith("through egress: not attached yet")
    hostile = await sandbox.start(["python3", "-c", HOLD], stdin=True)
    async for chunk in hostile.output():
        assert chunk.data == b"up\n"
        break
    await node.services["egress"].start()
    assert "3128" in (await until_told(sandbox, "network.unattached"))["reason"]
    # Meanwhile it is tried again and again, and nobody else has to wait for that.
    other = await cloche.create()
    assert await asks(other) == DENIED
    await hostile.signal(signal.SIGKILL)
    await hostile.wait()
    await until_told(sandbox, "network.attached")
    assert await asks(sandbox) == DENIED
    assert len(await told(sandbox, "network.unattached")) == 1


async def test_the_network_changes_while_it_runs_and_what_is_left_out_stays(cloche: Cloche, bus: Bus) -> None:
    sandbox = await cloche.create({"network": {"allowed_hosts": ["one.example"]}})
    await change(bus, sandbox, {"mode": "none"})
    await until_nobody(sandbox)
    await change(bus, sandbox, {"mode": "restricted"}, id="again-1")
    await until_told(sandbox, "network.attached", times=2)
    assert await asks(sandbox) == DENIED
    await change(bus, sandbox, {"mode": "restricted"}, id="again-1")
    changes = await told(sandbox, "sandbox.network_changed")
    assert [fact["network"]["mode"] for _, fact in changes] == ["none", "restricted"]
    assert all(fact["network"]["allowed_hosts"] == ["one.example"] for _, fact in changes)


async def test_a_network_changed_while_stopped_holds_from_the_next_start(cloche: Cloche, bus: Bus) -> None:
    sandbox = await cloche.create()
    await sandbox.stop(grace_ms=0)
    await change(bus, sandbox, {"mode": "none"})
    await sandbox.boot()
    assert await asks(sandbox) == "nobody"


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        ({"mode": "full"}, "make another sandbox"),
        ({"mod": "none"}, "mod"),
        ({"allowed_ports": [0]}, r"allowed_ports\[0\]|allowed_ports"),
        ({"mode": "open"}, "mode"),
    ],
)
async def test_what_a_network_cannot_become_is_refused_with_the_reason(
    cloche: Cloche, bus: Bus, network: dict[str, object], reason: str
) -> None:
    sandbox = await cloche.create()
    with pytest.raises(Invalid, match=reason):
        await change(bus, sandbox, network)
    assert await told(sandbox, "sandbox.network_changed") == []
    await sandbox.remove()


@pytest.mark.parametrize("again", ["boot", "recover"])
async def test_a_sandbox_is_not_told_to_run_before_its_way_out_is_there(
    node: Node, cloche: Cloche, bus: Bus, again: str
) -> None:
    sandbox, other = await cloche.create(), await cloche.create()
    await sandbox.stop(grace_ms=0)
    egress = node.services["egress"].pid
    async with load_provider("local", node.data) as provider:
        os.kill(egress, signal.SIGSTOP)
        try:
            starting = asyncio.create_task(getattr(sandbox, again)())
            async with asyncio.timeout(30):
                while (seen := await provider.inspect(sandbox.id)) is None or seen.state != SandboxState.RUNNING:
                    await asyncio.sleep(0.005)
            # Whole orders of another's, begun and ended meanwhile.
            for port in range(8080, 8085):
                await change(bus, other, {"allowed_ports": [port]})
            assert len(await told(sandbox, "sandbox.started", "sandbox.recovered")) == 1
        finally:
            os.kill(egress, signal.SIGCONT)
    await starting
    assert await asks(sandbox) == DENIED


async def test_whoever_is_wrong_about_a_life_changes_nothing(node: Node, cloche: Cloche) -> None:
    sandbox, sealed = await cloche.create(), await cloche.create({"network": {"mode": "none"}})
    assert sealed.state.instance is not None
    async with open_as(node.settings, "spawner") as spawner:
        for target, instance in ((sandbox.id, "another"), (sealed.id, sealed.state.instance)):
            with pytest.raises(SandboxInvalidState):
                await ask(
                    spawner, subjects.rpc("egress", "local", target, "attach"), Attach(instance=instance), Attached
                )
        with pytest.raises(SandboxNotFound):
            await ask(spawner, subjects.rpc("egress", "local", "nobody", "attach"), Attach(instance="x"), Attached)
    assert await asks(sandbox) == DENIED
    assert await asks(sealed) == "nobody"
    assert len(await told(sandbox, "network.attached")) == 1


class MistakenOnce(Entrance):
    """Holds a life for over that is not, as one does who looks at the wrong moment."""

    was_mistaken = False

    async def listen(self, provider: Provider, sandbox: str, instance: str, ports: tuple[int, ...]) -> Entered:
        if not self.was_mistaken:
            self.was_mistaken = True
            raise LifeIsOver("it does not run")
        return await super().listen(provider, sandbox, instance, ports)


@asynccontextmanager
async def serving_nothing(state: SandboxLog, entered: Entered) -> AsyncIterator[None]:
    yield


async def test_a_life_that_seemed_to_be_over_is_told_of_and_tried_again_once_the_log_says_that_it_runs(
    tmp_path: Path,
) -> None:
    async with (
        a_sandbox(tmp_path / "sandbox") as inside,
        gates_in(tmp_path / "gates", Network()) as rig,
        MistakenOnce(tmp_path) as entrance,
        asyncio.TaskGroup() as tasks,
    ):
        journal = Journal(await rig.server.connect("egress"), service="egress", node="local")
        tools = Tools(journal, {Isolation.LOCAL: inside.provider}, entrance, serving_nothing)
        attachments = Attachments(tools, tasks, lambda _: None, lambda _: None)
        seen = await inside.provider.inspect(inside.id)
        assert seen is not None
        await rig.create(Network(), inside.id)
        running = replace(rig.state, instance=seen.instance)
        attachments.consider(running)
        await until_facts(rig, inside.id, [NetworkUnattached])
        attachments.consider(replace(running, lifecycle_sequence=running.lifecycle_sequence + 1))
        await until_facts(rig, inside.id, [NetworkUnattached, NetworkAttached])
        ended = replace(running, status=Status.STOPPED, lifecycle_sequence=running.lifecycle_sequence + 2)
        attachments.consider(ended)


async def until_facts(rig: Rig, sandbox: str, kinds: list[type[Fact]]) -> None:
    async with asyncio.timeout(30):
        while [type(fact) for fact in await rig.facts(sandbox)] != kinds:
            await asyncio.sleep(0.02)


async def test_containers_have_their_way_out_before_their_first_command_too(tmp_path: Path) -> None:
    async with docker_node(tmp_path) as (node, cloche):
        sandbox = await cloche.create(spec())
        assert await asks_plainly(sandbox) == DENIED
        await node.restart("egress")
        await until_told(sandbox, "network.attached", times=2)
        assert await asks_plainly(sandbox) == DENIED
        await sandbox.recover()
        assert await asks_plainly(sandbox) == DENIED
