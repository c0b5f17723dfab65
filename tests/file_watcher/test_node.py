"""The file watcher as one service of a node."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts import codec
from contracts.errors import SandboxInvalidState
from contracts.events.sandbox import SandboxRemoved, SandboxSnapshotted
from infra.client import Cloche, Sandbox
from tests.faults.docker_node import spec
from tests.faults.stories import under_fire
from tests.file_watcher.rig import as_things, check_agreement, in_log, on_disk, told
from tests.images import require_docker
from tests.services.node import Node, Service, node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORM = """
for round in 1 2 3 4 5 6; do
  for d in 1 2 3 4 5 6 7 8; do
    mkdir -p r$round/d$d/deep
    for f in 1 2 3 4 5 6 7 8 9 10; do echo $round $d $f > r$round/d$d/deep/f$f; echo $f >> r$round/log; done
  done
  mv r$round/d1 r$round/moved; rm -r r$round/d2; chmod 600 r$round/log; ln -s log r$round/link
done
"""


Running = tuple[Node, Cloche]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """One for all tests; each has sandboxes of its own."""
    async with node_in(tmp_path_factory.mktemp("node")) as found:
        yield found


def workspace(node: Node, sandbox: Sandbox) -> Path:
    return node.data / "sandboxes" / sandbox.id / "workspace"


async def agree(running: Running, sandbox: Sandbox) -> int:
    node, cloche = running
    flushed = await sandbox.flush(manifest=True)
    return await check_agreement(cloche.bus, flushed, workspace(node, sandbox), sandbox.id)


async def test_killed_with_nats_during_a_storm_log_manifest_and_disk_agree_after_it(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    victims = random.Random(3)

    async def strike() -> None:
        if victims.random() < 0.4:
            node.kill_server()
        else:
            await node.restart("file_watcher")

    async def work() -> None:
        for number in range(3):
            assert (await sandbox.run(f"mkdir s{number}; cd s{number}; {STORM}")).exit_code == 0

    assert await under_fire(work(), strike, seed=7) > 0
    assert await agree(running, sandbox) > 1000
    await sandbox.remove()


async def test_what_a_command_left_is_in_the_log_when_its_sandbox_is_gone(running: Running) -> None:
    _, cloche = running
    sandbox = await cloche.create()
    await sandbox.run("mkdir out; echo result > out/answer; (while :; do date > out/clock; done) &")
    await sandbox.remove()
    tree = await in_log(cloche.bus, sandbox=sandbox.id)
    assert set(tree) == {b"out", b"out/answer", b"out/clock"}
    assert ("deleted", "out/answer") not in await told(cloche.bus, sandbox=sandbox.id)
    with pytest.raises(SandboxInvalidState):
        await sandbox.flush()


async def test_a_snapshot_names_the_whole_tree_once(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    await sandbox.run("mkdir d; echo 1 > d/a")
    taken = await sandbox.snapshot(label="before")
    await sandbox.run("rm -r d")
    await sandbox.flush()
    assert (taken.files, taken.size) == (2, 2)
    assert set(await in_log(cloche.bus, taken.sequence, sandbox.id)) == {b"d", b"d/a"}
    await sandbox.stop()
    assert (await sandbox.snapshot()).files == 0
    events = [codec.decode_fact(event.head) async for event in sandbox.events(types=["sandbox.snapshotted"])]
    labels = [event.label for event in events if isinstance(event, SandboxSnapshotted)]
    assert labels == ["before", None]
    await node.services["file_watcher"].kill()
    try:
        await sandbox.remove()
    finally:
        await node.services["file_watcher"].start()
    removed = [codec.decode_fact(event.head) async for event in sandbox.events(types=["sandbox.removed"])]
    assert isinstance(removed[0], SandboxRemoved)
    assert "its last changes to files may be missing" in removed[0].reason


async def test_several_sandboxes_are_followed_apart(running: Running) -> None:
    _, cloche = running
    sandboxes = await asyncio.gather(*(cloche.create() for _ in range(6)))
    await asyncio.gather(*(each.run(f"for i in $(seq 30); do echo {each.id} > f$i; done") for each in sandboxes))
    for each in sandboxes:
        assert await agree(running, each) == 30
        await each.remove()


async def test_a_docker_sandbox_is_followed_too_by_a_watcher_that_no_engine_answers(running: Running) -> None:
    require_docker()
    node, cloche = running
    await node.services["file_watcher"].kill()
    node.services["file_watcher"] = Service("file_watcher", node.data, {"DOCKER_HOST": "unix:///nowhere.sock"})
    await node.services["file_watcher"].start()
    sandbox = await cloche.create({"isolation": "docker", **spec()})
    await sandbox.run("mkdir -p a/b; echo 1 > a/b/c; mv a z")
    await sandbox.flush()
    assert set(await in_log(cloche.bus, sandbox=sandbox.id)) == {b"z", b"z/b", b"z/b/c"}
    await sandbox.run("echo last > words")
    await sandbox.remove()
    assert b"words" in await in_log(cloche.bus, sandbox=sandbox.id)


async def test_a_stopped_sandbox_is_told_to_its_end(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    await sandbox.run("echo 1 > a")
    await sandbox.stop()
    await sandbox.flush()
    assert as_things(await in_log(cloche.bus, sandbox=sandbox.id)) == on_disk(workspace(node, sandbox))
    await sandbox.boot()
    await sandbox.run("echo 2 > a")
    await sandbox.flush()
    assert as_things(await in_log(cloche.bus, sandbox=sandbox.id)) == on_disk(workspace(node, sandbox))
