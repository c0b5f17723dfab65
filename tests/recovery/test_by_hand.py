"""A person has a sandbox recovered: one that is gone, stopped, failed, or should be as it was before."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TypeGuard

import pytest
import pytest_asyncio

from contracts.errors import Invalid, SandboxInvalidState
from contracts.events.command import CommandLost
from contracts.message import Fact
from contracts.state import Status
from infra.client import Cloche
from infra.embedded import secrets
from infra.keeper.launcher import end_keeper
from infra.keeper.layout import Layout
from infra.sandbox.providers import load_provider
from tests.bus.servers import until
from tests.cli.shell import Shell
from tests.conformance.tiers import require
from tests.docker.containers import engine_client
from tests.faults.docker_node import spec, target_of
from tests.recovery.work import facts, faults, has_no_records, kinds, on_disk, work
from tests.services.node import Node

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    async with Node(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(node: Node) -> AsyncIterator[Cloche]:
    async with node.connect() as cloche:
        yield cloche


async def test_what_was_stopped_or_runs_comes_back_with_its_workspace_and_nothing_else(
    node: Node, cloche: Cloche
) -> None:
    sandbox = await cloche.create({"environment": {"set": {"WHO": "me"}}})
    await work(sandbox)
    before = await on_disk(node.data, sandbox)
    first = sandbox.state.instance
    running = await sandbox.start("echo up; sleep 600")
    async for chunk in running.output():
        assert chunk.data == b"up\n"
        break
    done = await sandbox.recover()
    assert (done.node, done.sequence) == ("local", None)
    assert (await running.wait()).outcome == "lost"
    assert sandbox.state.instance != first
    assert await on_disk(node.data, sandbox) == before
    assert (await sandbox.run('echo "$WHO"; cat src/main.py')).stdout == b"me\nprint(1)\n"
    await sandbox.stop(grace_ms=0)
    await sandbox.recover()
    assert await on_disk(node.data, sandbox) == before
    state = sandbox.state
    assert (state.status, state.retries, state.node) == (Status.RUNNING, 0, "local")
    assert (await kinds(sandbox))[3:] == ["recovering", "recovered", "stopped", "recovering", "recovered"]


async def test_it_goes_back_to_what_it_was_at_a_sequence_and_the_log_says_so(node: Node, cloche: Cloche) -> None:
    sandbox = await cloche.create()
    await work(sandbox)
    sequence = (await sandbox.flush()).sequence
    before = await on_disk(node.data, sandbox)
    assert (await sandbox.run("rm -r src; echo later > later")).exit_code == 0
    done = await sandbox.recover(at=sequence)
    assert done.sequence == sequence
    assert await on_disk(node.data, sandbox) == before
    assert (await sandbox.run("cat src/main.py; echo more >> src/main.py")).stdout == b"print(1)\n"
    flushed = await sandbox.flush()
    past = await sandbox.history.tree(flushed.sequence)
    assert past.tree == await on_disk(node.data, sandbox)
    with pytest.raises(Invalid, match="on record"):
        await sandbox.recover(at=1)
    assert (await sandbox.run("cat src/main.py")).stdout == b"print(1)\nmore\n"


@pytest.mark.parametrize("tier", ["local", "docker"])
async def test_a_workspace_that_is_lost_is_made_again_from_the_log(node: Node, cloche: Cloche, tier: str) -> None:
    require(tier)
    sandbox = await cloche.create({"isolation": tier, **(spec() if tier == "docker" else {})})
    await work(sandbox)
    await sandbox.flush()
    before = await on_disk(node.data, sandbox)
    await sandbox.stop(grace_ms=0)
    async with load_provider(tier, node.data) as provider:
        workspace = Path((await provider.created(sandbox.id)).host_workspace)
    lost = workspace if tier == "docker" else workspace.parent
    lost.rename(node.data / f"lost-{sandbox.id}")
    done = await sandbox.recover()
    assert done.sequence is not None
    assert await on_disk(node.data, sandbox) == before
    assert (await sandbox.run("cat src/main.py")).stdout == b"print(1)\n"
    assert done.notes[0].startswith(f"workspace: {len(before)} entries")
    await sandbox.flush()
    # What was not there yet while it was restored was never told as deleted.
    told = [event.head.type async for event in sandbox.events(types=["file"]) if b'"deleted"' in event.raw]
    assert told == []


async def test_a_command_whose_record_is_lost_with_the_disk_ends_as_lost_when_its_sandbox_is_recovered(
    node: Node, cloche: Cloche
) -> None:
    sandbox = await cloche.create()
    running = await sandbox.start("echo up; sleep 600")
    async for chunk in running.output():
        assert chunk.data == b"up\n"
        break
    await node.services["executor"].kill()
    await end_keeper(node.data, force=True)
    Layout.of(node.data).execs.rename(node.data / "lost-records")
    await node.services["executor"].start()
    await sandbox.recover()
    assert (await running.wait()).outcome == "lost"
    # The disk is found again.
    await node.services["executor"].kill()
    await end_keeper(node.data, force=True)
    Layout.of(node.data).execs.rename(node.data / "other-records")
    (node.data / "lost-records").rename(Layout.of(node.data).execs)
    await node.services["executor"].start()
    assert (await sandbox.run("echo works")).stdout == b"works\n"
    await until(partial(has_no_records, node.data))
    told = [(fact.cause, fact.totals.stdout) async for fact in facts(sandbox, "command.lost") if is_lost(fact)]
    assert told == [("node_lost", 3)]
    assert await faults(cloche, sandbox) == ()


def is_lost(fact: Fact) -> TypeGuard[CommandLost]:
    return isinstance(fact, CommandLost)


async def test_a_container_that_somebody_removed_is_made_again_around_the_same_workspace(
    node: Node, cloche: Cloche
) -> None:
    require("docker")
    sandbox = await cloche.create({"isolation": "docker", **spec()})
    await work(sandbox)
    before = await on_disk(node.data, sandbox)
    container = (await target_of(node.data, sandbox.id)).container
    await sandbox.stop(grace_ms=0)
    async with engine_client() as docker:
        await docker.containers.container(container).delete(force=True)
    await sandbox.recover()
    assert (await target_of(node.data, sandbox.id)).container != container
    assert await on_disk(node.data, sandbox) == before
    assert (await sandbox.run("cat src/main.py")).stdout == b"print(1)\n"


async def test_what_is_removed_or_was_never_made_is_refused(node: Node, cloche: Cloche) -> None:
    sandbox = await cloche.create()
    await sandbox.remove()
    with pytest.raises(SandboxInvalidState, match="nothing to recover"):
        await sandbox.recover()
    with pytest.raises(Invalid, match="network"):
        await cloche.create({"network": {"mode": "full"}}, id="doomed")
    with pytest.raises(SandboxInvalidState, match="nothing to recover"):
        await (await cloche.sandbox("doomed")).recover()


async def test_the_command_line_recovers_and_says_what_became_of_the_workspace(node: Node, cloche: Cloche) -> None:
    sandbox = await cloche.create()
    await work(sandbox)
    sequence = (await sandbox.flush()).sequence
    await sandbox.stop(grace_ms=0)
    shell = Shell(node.data, CLOCHE_URL=node.server.url, CLOCHE_CREDS=str(secrets.directory(node.data)))
    said = await asyncio.to_thread(shell, "recover", sandbox.id)
    assert (said.code, said.out.decode()) == (0, f"{sandbox.id} running\n"), said
    assert b"on node local, workspace as it was" in said.err
    said = await asyncio.to_thread(shell, "recover", sandbox.id, "--at", str(sequence), "--json")
    done = json.loads(said.out)
    assert (done["node"], done["sequence"], len(done["notes"])) == ("local", sequence, 1)
    said = await asyncio.to_thread(shell, "recover", sandbox.id, "--at", "1")
    assert said.code != 0
    assert b"on record" in said.err
