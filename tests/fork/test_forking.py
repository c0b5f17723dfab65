"""Forks as clients ask for them: on a node with a scripted agent, shared by the whole file."""

import datetime
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from contracts import codec, subjects
from contracts.commands.sandbox import ForkSandbox
from contracts.errors import Invalid, SandboxInvalidState, SandboxNotFound
from contracts.events import agent as facts
from contracts.events.sandbox import SandboxCreating
from contracts.spec import ForkOf
from contracts.state import SandboxState, Status
from infra.bus import reader
from infra.client import Cloche, Sandbox
from infra.client.orders import publish
from infra.client.sandbox import load_state, settled
from infra.lineage import last_run, line_of
from tests.agents.conformance.scenes import story, until
from tests.agents.node import AgentNode, agent_node_in
from tests.agents.scripted.playing import begin, texts

pytestmark = pytest.mark.asyncio(loop_scope="module")

World = tuple[AgentNode, Cloche]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with agent_node_in(tmp_path_factory.mktemp("fork")) as node, node.connect() as cloche:
        yield node, cloche


async def after(sandbox: Sandbox, script: str) -> int:
    result = await sandbox.run(script)
    assert result.exit_code == 0, result
    return (await sandbox.flush()).sequence


async def record(cloche: Cloche, sandbox: Sandbox) -> list[bytes]:
    """All that the log has of it, but for what its health says from time to time."""
    read = reader.read(cloche.bus, subjects.events_of(sandbox.id), 1, follow=False)
    return [entry.data async for entry in read if ".health." not in entry.subject]


async def creating(cloche: Cloche, sandbox: str) -> SandboxCreating:
    entry = await reader.first(cloche.bus, subjects.event(sandbox, "sandbox.creating"))
    assert entry is not None
    fact = codec.decode_fact(codec.decode_head(entry.data))
    assert isinstance(fact, SandboxCreating)
    return fact


async def test_a_fork_has_the_files_and_the_specification_of_that_moment_and_leaves_its_origin_alone(
    world: World,
) -> None:
    _, cloche = world
    given: dict[str, Any] = {"environment": {"set": {"COLOUR": "green"}}, "labels": {"team": "garden"}}
    origin = await cloche.create({**given, "network": {"allowed_hosts": ["one.example"]}})
    await after(origin, "printf one > a")
    await origin.network(allowed_hosts=["two.example"])
    second = await after(origin, "printf two > a; printf b > b")
    then = datetime.datetime.now(datetime.UTC)
    await origin.network(allowed_hosts=["three.example"])
    await after(origin, "rm b; printf three > a")
    before = await record(cloche, origin)

    moments: tuple[int | datetime.datetime, ...] = (second, then)
    for number, at in enumerate(moments):
        fork = await cloche.fork(origin.id, at=at, overrides={"task_id": f"task-{number}"})
        assert (await fork.run("cat a b; echo $COLOUR; echo more > c")).stdout == b"twobgreen\n"
        spec = (await creating(cloche, fork.id)).spec
        source = spec.workspace.source
        assert isinstance(source, ForkOf)
        assert source.sandbox == origin.id
        assert second <= source.sequence <= second + number * 3
        assert spec.network.allowed_hosts == ("two.example",)
        assert (spec.labels, spec.task_id, spec.isolation) == ({"team": "garden"}, f"task-{number}", "local")
    assert await record(cloche, origin) == before
    assert (await origin.run("cat a; ls")).stdout == b"threea\n"


async def test_a_fork_of_a_fork_and_of_what_is_removed(world: World) -> None:
    _, cloche = world
    origin = await cloche.create()
    first = await after(origin, "printf one > a")
    await origin.remove()
    child = await cloche.fork(origin.id, at=first)
    second = await after(child, "printf two > b")
    grandchild = await cloche.fork(child.id, at=second)
    await child.remove()
    assert (await grandchild.run("cat a b")).stdout == b"onetwo"
    assert [(each.sandbox, each.sequence) for each in await line_of(cloche.bus, grandchild.id)] == [
        (child.id, second),
        (origin.id, first),
    ]


async def test_a_fork_that_cannot_be_is_refused_with_the_reason(world: World) -> None:
    _, cloche = world
    origin = await cloche.create()
    there = await after(origin, "printf one > a")
    ready = await reader.first(cloche.bus, subjects.event(origin.id, "file.ready"))
    assert ready is not None
    with pytest.raises(SandboxNotFound, match="there was no sandbox"):
        await cloche.fork(origin.id, at=origin.state.first_sequence - 1)
    with pytest.raises(SandboxNotFound, match="no-such"):
        await cloche.fork("no-such", at=there)
    with pytest.raises(Invalid, match=f"from sequence {ready.seq} on"):
        await cloche.fork(origin.id, at=origin.state.first_sequence)
    with pytest.raises(Invalid, match="the log ends"):
        await cloche.fork(origin.id, at=there + 10**9)
    with pytest.raises(SandboxInvalidState, match="exists already"):
        await cloche.fork(origin.id, at=there, id=(await cloche.create()).id)
    with pytest.raises(Invalid, match=r"workspace\.source"):
        await cloche.fork(origin.id, at=there, overrides={"workspace": {"source": None}})
    with pytest.raises(Invalid, match="unknown field `colour`"):
        await cloche.fork(origin.id, at=there, overrides={"colour": "green"})
    with pytest.raises(Invalid, match="no zone"):
        await cloche.fork(origin.id, at=datetime.datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(Invalid, match="the log begins later"):
        await cloche.fork(origin.id, at=datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC))


async def test_an_order_of_any_client_is_taken_once_also_when_the_spawner_is_killed(world: World) -> None:
    node, cloche = world
    origin = await cloche.create()
    there = await after(origin, "head -c 3000000 /dev/urandom > large; printf one > a")
    order = ForkSandbox(fork="by-order", sequence=there)
    await node.services["spawner"].kill()
    for _ in range(2):
        await publish(cloche.bus, node.settings.node, origin.id, order, id="order-1")
    start = (await reader.bounds(cloche.bus)).last + 1
    await node.services["spawner"].start()
    async for _ in reader.read(cloche.bus, [subjects.event("by-order", "sandbox.creating")], start, follow=True):
        break
    await node.restart("spawner")
    fork = Sandbox(cloche.bus, await running(cloche, "by-order"))
    assert (await fork.run("cat a; stat -c %s large")).stdout == b"one3000000\n"
    told = reader.read(cloche.bus, [subjects.lifecycle("by-order")], 1, follow=False)
    kinds = [codec.decode_head(entry.data).type async for entry in told]
    assert kinds == ["sandbox.creating", "sandbox.created", "sandbox.started"]


async def running(cloche: Cloche, sandbox: str) -> SandboxState:
    return await settled(cloche.bus, "order-1", {Status.RUNNING}, await load_state(cloche.bus, sandbox))


SCRIPT = {
    "turns": [
        [{"say": "First."}, {"run": "printf one > a"}],
        [{"say": "Second: ${message}"}, {"run": "printf two > a"}, {"wait": {"file": "go"}}, {"say": "Late."}],
        [{"say": "Third: ${message}"}],
    ]
}


async def test_a_conversation_goes_on_from_the_middle_of_a_run_with_nothing_of_what_came_later(world: World) -> None:
    _, cloche = world
    origin = await cloche.create()
    run = await begin(origin, SCRIPT, keep_open=True)
    await until(run, facts.AgentWaiting)
    await origin.agent.message("on")
    await until(run, facts.AgentToolUse, lambda use: use.tool == "wait")
    await origin.flush()
    middle = (await reader.bounds(cloche.bus)).last
    await origin.files.write("go", "")
    await until(run, facts.AgentWaiting, count=2)
    await origin.agent.message("and on")
    await until(run, facts.AgentMessage, lambda said: said.text == "Third: and on")
    await origin.agent.stop()
    await run.wait()
    assert await newest(cloche, origin, middle) == run.id

    fork = await cloche.fork(origin.id, at=middle)
    assert (await fork.run("cat a; ls")).stdout == b"twoa\n"
    going_on = await begin(fork, None, prompt="again", resume=run.id)
    await fork.files.write("go", "")
    assert (await going_on.wait()).outcome == "completed"
    assert texts(await story(going_on)) == ["Second: again", "Late."]

    child = await cloche.fork(fork.id, at=(await reader.bounds(cloche.bus)).last)
    assert await newest(cloche, child, None) == going_on.id
    again = await begin(child, None, prompt="once more", resume=going_on.id)
    await again.wait()
    assert texts(await story(again)) == ["Third: once more"]


async def newest(cloche: Cloche, sandbox: Sandbox, sequence: int | None) -> str:
    at = sequence or (await reader.bounds(cloche.bus)).last
    found = await last_run(cloche.bus, ForkOf(sandbox=sandbox.id, sequence=at))
    assert found is not None
    return found.run


async def test_a_run_that_began_later_is_none_of_a_forks(world: World) -> None:
    _, cloche = world
    origin = await cloche.create()
    there = await after(origin, "printf one > a")
    run = await begin(origin, SCRIPT)
    await run.wait()
    fork = await cloche.fork(origin.id, at=there)
    assert await last_run(cloche.bus, ForkOf(sandbox=origin.id, sequence=there)) is None
    with pytest.raises(Invalid, match="no earlier run"):
        await begin(fork, None, resume=run.id)
