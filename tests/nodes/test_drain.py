"""A node that is drained: nothing new comes, and what it has leaves with its files."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from aiodocker.exceptions import DockerError

from contracts.commands.node import DrainNode
from contracts.errors import SandboxInvalidState
from contracts.events.audit import DeadLetter
from contracts.events.command import CommandLost
from contracts.events.node import NodeDrained, NodeKept
from contracts.nodes import Standing
from contracts.state import Status
from contracts.streams import COMMANDS_STREAM
from infra.bus.publisher import append
from infra.client import Sandbox
from infra.client.nodes import NodeHealth, drain, nodes
from infra.client.sandbox import LogEvent, load_state
from tests.bus.servers import until
from tests.docker.containers import engine_client
from tests.faults.docker_node import spec, target_of
from tests.images import require_docker
from tests.nodes.pair import Pair, create_on, pair_in
from tests.recovery.work import facts, on_disk

pytestmark = pytest.mark.timeout(240)


async def _until(pair: Pair, node: str, order: DrainNode, standing: Standing) -> list[object]:
    told: list[object] = []
    async for news in drain(pair.cloche.bus, node, order):
        told.append(news.fact)
        if news.record.standing is standing:
            break
    return told


async def test_a_drained_node_gives_everything_away_and_says_what_cannot_leave(tmp_path: Path) -> None:
    async with pair_in(tmp_path, wait_s=2.0, without=("egress", "health_monitor")) as pair:
        cloche = pair.cloche
        await _until(pair, "n1", DrainNode(), Standing.DRAINED)
        free = await cloche.create(id="free")
        assert free.state.node == "n2"
        bound = await cloche.create({"node_labels": {"name": "n2"}}, id="bound")
        assert {each.node: each.health for each in await nodes(cloche.bus)} == {
            "n1": NodeHealth.DRAINED,
            "n2": NodeHealth.ALIVE,
        }
        await _until(pair, "n1", DrainNode(cancel=True), Standing.JOINED)
        running = await free.start(
            ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i >> count; echo $i; sleep 0.01; done"]
        )
        await pair.n2.services["spawner"].kill()
        await pair.n2.services["spawner"].start()

        told: list[object] = []
        async for news in drain(cloche.bus, "n2", DrainNode()):
            told.append(news.fact)
            if isinstance(news.fact, NodeKept):
                assert (news.fact.sandbox, "n1 lacks label name=n2" in news.fact.reason) == ("bound", True)
                assert (await load_state(cloche.bus, "bound")).status is Status.RUNNING
                await bound.remove()
            if isinstance(news.fact, NodeDrained):
                break
        moved = await load_state(cloche.bus, "free")
        assert (moved.node, moved.status, moved.former_nodes) == ("n1", Status.RUNNING, ("n2",))
        assert (await running.wait()).outcome == "lost"
        lost = [fact async for fact in facts(free, "command.lost") if isinstance(fact, CommandLost)]
        assert [(fact.cause, "its node is being drained" in fact.detail) for fact in lost] == [("node_drained", True)]
        # What it wrote until it was frozen has come along: a count without a hole, as far as its last line is whole.
        free.state = moved
        count = (await free.run("cat count")).stdout.decode().splitlines()
        assert count[:-1] == [str(number + 1) for number in range(len(count) - 1)]
        told_to = lost[0].totals.stdout
        assert told_to is not None
        assert len("".join(f"{line}\n" for line in count)) >= told_to
        assert await on_disk(pair.n1.data, free)


async def test_a_container_leaves_a_drained_node_with_its_files_and_nothing_of_it_stays(tmp_path: Path) -> None:
    """Both nodes have the same engine here: whose a container is, its node's home says, not its engine."""
    require_docker()
    async with pair_in(tmp_path, wait_s=2.0, without=("egress", "health_monitor")) as pair:
        carton = await create_on(pair, pair.n2, "carton", {"isolation": "docker", **spec()})
        assert (await carton.run("mkdir deep; echo kept > deep/file; chmod 700 deep/file")).exit_code == 0
        running = await carton.start("echo begun; exec sleep 600")
        async for _ in running.output():
            break
        before, container = await on_disk(pair.n2.data, carton), (await target_of(pair.n2.data, "carton")).container
        await _until(pair, "n2", DrainNode(), Standing.DRAINED)
        moved = await load_state(pair.cloche.bus, "carton")
        assert (moved.node, moved.status, moved.isolation) == ("n1", Status.RUNNING, "docker")
        result = await running.wait()
        assert (result.outcome, result.stdout) == ("lost", b"begun\n")
        carton.state = moved
        said = await carton.run("cat deep/file; stat -c %a deep/file")
        assert said.stdout == b"kept\n700\n"
        assert await on_disk(pair.n1.data, carton) == before
        assert (await target_of(pair.n1.data, "carton")).container != container
        async with engine_client() as docker:
            with pytest.raises(DockerError, match="404"):
                await docker.containers.container(container).show()


async def test_an_order_of_a_drain_that_comes_when_the_drain_is_over_ends_nothing(tmp_path: Path) -> None:
    async with pair_in(tmp_path, wait_s=2.0, without=("egress", "health_monitor")) as pair:
        given: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        await pair.admin.tap(
            "cloche.cmd.any.*.sandbox.recover",
            lambda subject, _reply, data, _raw: given.put_nowait((subject.decode(), data)),
        )
        sandbox = await pair.cloche.create({"node_labels": {"name": "n2"}}, id="bound")
        async for news in drain(pair.cloche.bus, "n2", DrainNode()):
            if isinstance(news.fact, NodeKept):
                break
        subject, order = await given.get()
        await _until(pair, "n2", DrainNode(cancel=True), Standing.JOINED)
        await until(lambda: _takes_sandboxes(pair, "n2"))
        thawed = await load_state(pair.cloche.bus, "bound")
        assert thawed.status is Status.RUNNING
        running = await sandbox.start("read line; echo heard $line", stdin=True)

        await append(pair.admin, subject, order, "delivered late", stream=COMMANDS_STREAM)
        refused = [msgspec.json.decode(each.head.data, type=DeadLetter) async for each in _letters(sandbox, 2)][-1]
        assert (refused.reason.code, "moved on" in refused.reason.message) == (SandboxInvalidState.code, True)
        await running.write(b"you\n")
        assert (await running.wait()).stdout == b"heard you\n"
        state = await load_state(pair.cloche.bus, "bound")
        assert (state.instance, state.recovery) == (thawed.instance, None)


async def test_the_grace_of_a_drain_lasts_until_what_runs_has_ended_or_somebody_thinks_better_of_it(
    tmp_path: Path,
) -> None:
    hour = DrainNode(grace_ms=3_600_000)
    async with pair_in(tmp_path, without=("egress", "health_monitor")) as pair:
        waited_for = await create_on(pair, pair.n2, "waited-for")
        running = await waited_for.start("read line; echo heard $line", stdin=True)
        await _until(pair, "n2", hour, Standing.DRAINING)
        await running.write(b"you\n")
        assert (await running.wait()).stdout == b"heard you\n"
        await until(lambda: _is_on(pair, "n1", "waited-for"))
        await _until(pair, "n2", DrainNode(cancel=True), Standing.JOINED)

        cut_short = await create_on(pair, pair.n2, "cut-short")
        running = await cut_short.start("read line", stdin=True)
        await _until(pair, "n2", hour, Standing.DRAINING)
        await until(lambda: _takes_none(pair, "n2"))
        await _until(pair, "n2", DrainNode(cancel=True), Standing.JOINED)
        await _until(pair, "n2", DrainNode(), Standing.DRAINED)
        assert (await running.wait()).outcome == "lost"
        assert await _is_on(pair, "n1", "cut-short")


async def _is_on(pair: Pair, node: str, sandbox: str) -> bool:
    state = await load_state(pair.cloche.bus, sandbox)
    return (state.node, state.status) == (node, Status.RUNNING)


async def _takes_sandboxes(pair: Pair, node: str) -> bool:
    """As its signs of life tell the others."""
    seen = {each.node: each.vitals for each in await nodes(pair.cloche.bus)}[node]
    return seen is not None and not seen.draining


async def _takes_none(pair: Pair, node: str) -> bool:
    return not await _takes_sandboxes(pair, node)


async def _letters(sandbox: Sandbox, number: int) -> AsyncIterator[LogEvent]:
    """As many as there will be: a refusal by placement comes first, while nobody may have it."""
    async for event in sandbox.events(types=["dead_letter"], follow=True):
        yield event
        number -= 1
        if not number:
            return
