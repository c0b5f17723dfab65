"""Attempts are bounded, backed off and on the record; after the last it has failed, and a person can still have it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.commands.sandbox import RecoverSandbox
from contracts.errors import ClocheError, SandboxError
from contracts.events.sandbox import SandboxCreating, SandboxFailed, SandboxRecovering
from contracts.spec import Isolation, SandboxSpec
from contracts.state import Status
from infra.client import Cloche, Sandbox
from infra.client.orders import publish
from infra.client.sandbox import load_state
from infra.journal import Journal
from tests.recovery.work import facts, kinds, on_disk, work
from tests.services.node import Node

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

TWICE = {"restart": {"max_attempts": 2, "backoff_ms": 10}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    data = tmp_path_factory.mktemp("node")
    (data / "cloche.toml").write_text("[intervals]\nleftovers_s = 0.2\n")
    async with Node(data) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(node: Node) -> AsyncIterator[Cloche]:
    async with node.connect() as cloche:
        yield cloche


async def asked_for(cloche: Cloche, sandbox: Sandbox, name: str) -> None:
    """As after a death of the life that it has now."""
    state = await load_state(cloche.bus, sandbox.id)
    order = RecoverSandbox(reason="it died", instance=state.instance)
    await publish(cloche.bus, state.node, sandbox.id, order, id=f"{sandbox.id}-{name}")


async def until_told(sandbox: Sandbox, *wanted: str) -> list[str]:
    """The lifecycle after `started`, once it has come so far."""
    told: list[str] = []
    async with asyncio.timeout(60):
        async for event in sandbox.events(types=["sandbox"], follow=True):
            told.append(event.head.type.removeprefix("sandbox."))
            if len(told) >= 3 and told[3:] == list(wanted):
                return told
            assert len(told) < 3 + len(wanted), told
    raise AssertionError(told)


async def failure_of(sandbox: Sandbox) -> SandboxFailed:
    async for fact in facts(sandbox, "sandbox.failed"):
        assert isinstance(fact, SandboxFailed)
        return fact
    raise AssertionError("it has not failed")


async def test_after_the_last_attempt_it_has_failed_with_its_workspace_and_a_person_recovers_it(
    node: Node, cloche: Cloche
) -> None:
    sandbox = await cloche.create(TWICE)
    await work(sandbox)
    before = await on_disk(node.data, sandbox)
    story: list[str] = []
    for death in range(2):
        await asked_for(cloche, sandbox, f"death-{death}")
        story += ["recovering", "recovered"]
        await until_told(sandbox, *story)
    await asked_for(cloche, sandbox, "death-2")
    await until_told(sandbox, *story, "failed")
    failed = await failure_of(sandbox)
    assert (failed.failure.code, failed.failure.details["attempts"]) == ("SANDBOX_DIED", "2")
    assert "it died again after 2 attempts" in failed.failure.message
    attempts = [
        fact.attempt async for fact in facts(sandbox, "sandbox.recovering") if isinstance(fact, SandboxRecovering)
    ]
    assert attempts == [1, 2]
    with pytest.raises(SandboxError, match="failed"):
        await sandbox.run("true")
    assert await on_disk(node.data, sandbox) == before
    await sandbox.recover()
    assert (sandbox.state.status, sandbox.state.retries) == (Status.RUNNING, 0)
    assert await on_disk(node.data, sandbox) == before
    assert (await sandbox.run("cat src/main.py")).stdout == b"print(1)\n"


def break_it(data: Path, sandbox: str) -> None:
    """No init can listen there any more."""
    control = data / "sandboxes" / sandbox / "control"
    control.rename(control.with_name("control.away"))
    control.write_text("in the way")


def repair_it(data: Path, sandbox: str) -> None:
    control = data / "sandboxes" / sandbox / "control"
    control.unlink()
    control.with_name("control.away").rename(control)


async def test_a_recovery_that_fails_is_tried_again_and_then_given_up_with_the_reason(
    node: Node, cloche: Cloche
) -> None:
    sandbox = await cloche.create(TWICE)
    await work(sandbox)
    before = await on_disk(node.data, sandbox)
    break_it(node.data, sandbox.id)
    await asked_for(cloche, sandbox, "death")
    await until_told(sandbox, "recovering", "recovering", "failed")
    failed = await failure_of(sandbox)
    assert failed.failure.message.startswith("it cannot be recovered: ")
    assert (failed.failure.details["attempts"], "attempt 1 failed" in failed.failure.details["reason"]) == (
        "2",
        True,
    )
    with pytest.raises(ClocheError, match="cannot be recovered"):
        await sandbox.recover()
    repair_it(node.data, sandbox.id)
    await sandbox.recover()
    assert await on_disk(node.data, sandbox) == before


async def test_a_recovery_whose_order_is_lost_is_gone_on_with_by_the_next_spawner(node: Node, cloche: Cloche) -> None:
    sandbox = await cloche.create(TWICE)
    await work(sandbox)
    before = await on_disk(node.data, sandbox)
    await node.services["spawner"].kill()
    state = await load_state(cloche.bus, sandbox.id)
    async with await node.server.connect("spawner", "test") as bus:
        journal = Journal(bus, service="spawner", node="local")
        begun = SandboxRecovering(attempt=1, reason="it died", node="local")
        await journal.move(sandbox.id, begun, expected=state.lifecycle_sequence, command="gone")
    await node.services["spawner"].start()
    await until_told(sandbox, "recovering", "recovered")
    assert await on_disk(node.data, sandbox) == before
    assert (await sandbox.run("cat src/main.py")).stdout == b"print(1)\n"


async def test_a_creation_whose_order_is_lost_is_gone_on_with_too(node: Node, cloche: Cloche) -> None:
    await node.services["spawner"].kill()
    async with await node.server.connect("spawner", "test") as bus:
        journal = Journal(bus, service="spawner", node="local")
        wanted = SandboxSpec(isolation=Isolation.LOCAL)
        creating = SandboxCreating(spec=wanted, isolation=Isolation.LOCAL, node="local")
        await journal.move("half-made", creating, expected=0, command="gone")
    await node.services["spawner"].start()
    sandbox = await cloche.sandbox("half-made")
    await until_told(sandbox)
    assert (await sandbox.run("echo works")).stdout == b"works\n"


async def test_a_spawner_killed_at_any_moment_of_a_recovery_leaves_nothing_in_between(
    node: Node, cloche: Cloche
) -> None:
    sandbox = await cloche.create({"restart": {"max_attempts": 100}})
    await work(sandbox)
    sequence = (await sandbox.flush()).sequence
    before = await on_disk(node.data, sandbox)
    for number in range(6):
        at = sequence if number % 2 else None
        recovering = asyncio.create_task(sandbox.recover(at=at))
        await asyncio.sleep(0.04 * number)
        await node.restart("spawner")
        async with asyncio.timeout(60):
            done = await recovering
        assert done.sequence == at
        assert await on_disk(node.data, sandbox) == before
    assert (await kinds(sandbox))[3:] == ["recovering", "recovered"] * 6
