"""The health monitor of a whole node of real processes."""

import asyncio
import datetime
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from contracts.events.health import (
    HealthDied,
    HealthHealthy,
    HealthLimitExceeded,
    HealthUnhealthy,
    VitalsMetrics,
)
from contracts.events.sandbox import SandboxCreated, SandboxCreating, SandboxStarted, SandboxStopped
from contracts.message import Fact
from contracts.spec import Isolation, Resources, Restart, RestartPolicy, SandboxSpec
from contracts.state import Status
from infra import clock
from infra.access import open_as
from infra.client import Cloche, Sandbox
from infra.client.sandbox import load_state
from infra.client.vitals import newest
from infra.journal import Journal
from infra.sandbox.base import CreateRequest, SandboxState
from infra.sandbox.providers import load_provider
from services.health_monitor.told import HealthLog
from tests.health.log import death_of, kill, next_of, pid_of, restart, types_of
from tests.services.node import Node, Service

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

HEALTH_S = 0.3
IDLE_MS = 4000
"""Longer than a busy machine takes to begin the first command."""
SMALL: dict[str, Any] = {"resources": {"memory_mb": 512, "disk_mb": 1024}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    data = tmp_path_factory.mktemp("node")
    (data / "cloche.toml").write_text(f"[intervals]\nhealth_s = {HEALTH_S}\n")
    async with Node(data) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(node: Node) -> AsyncIterator[Cloche]:
    async with node.connect() as cloche:
        yield cloche


async def looked_at_again(cloche: Cloche, sandbox: Sandbox, times: int = 3) -> None:
    """Waits for that many heartbeats from now on."""
    beats: set[datetime.datetime | None] = set()
    begun = clock.now()
    async with asyncio.timeout(30):
        while len(beats) < times:
            found = (await newest(cloche.bus, [sandbox.id])).get(sandbox.id)
            if found is not None and found.beat_at is not None and found.beat_at > begun:
                beats.add(found.beat_at)
            await asyncio.sleep(0.02)


async def metrics_of(cloche: Cloche, sandbox: Sandbox) -> VitalsMetrics:
    """The next to be told."""
    begun = clock.now()
    async with asyncio.timeout(30):
        while True:
            found = (await newest(cloche.bus, [sandbox.id])).get(sandbox.id)
            if found is not None and found.metrics is not None and found.measured_at and found.measured_at > begun:
                return found.metrics
            await asyncio.sleep(0.02)


async def test_a_death_is_told_once_with_its_cause_and_the_last_output_and_then_it_is_stopped(
    node: Node, cloche: Cloche
) -> None:
    sandbox = await cloche.create({**SMALL, **restart("never")}, id="told")
    await sandbox.run("for i in $(seq 2000); do echo line $i; done; printf 'last \\377 words'")
    await kill(node.data, "told")
    _, stopped = await next_of(sandbox, "sandbox.stopped")
    died = await death_of(sandbox)
    assert (died.cause, died.exit_code, died.signal, died.action) == ("killed", 137, 9, "stop")
    assert died.last_output.endswith("line 2000\nlast � words")
    assert 4000 < len(died.last_output) <= 4096
    assert isinstance(stopped, SandboxStopped)
    assert stopped.failure is not None
    assert (stopped.failure.code, stopped.failure.details) == ("SANDBOX_DIED", {"cause": "killed"})
    assert await types_of(sandbox, "health") == ["health.healthy", "health.died"]


async def test_what_was_ended_by_an_order_never_died(cloche: Cloche) -> None:
    sandbox = await cloche.create(SMALL, id="ordered")
    for _ in range(3):
        await sandbox.pause()
        await sandbox.resume()
        await sandbox.stop()
        await sandbox.boot()
        await looked_at_again(cloche, sandbox, 1)
    await sandbox.stop(grace_ms=0)
    await sandbox.remove()
    assert set(await types_of(sandbox, "health")) == {"health.healthy"}


async def test_what_ended_by_itself_comes_back_only_where_it_always_does(node: Node, cloche: Cloche) -> None:
    stays = await cloche.create({**SMALL, **restart("on_failure")}, id="stays")
    returns = await cloche.create({**SMALL, **restart("always")}, id="returns")
    for sandbox in (stays, returns):
        os.kill(await pid_of(node.data, sandbox.id), signal.SIGTERM)
    await next_of(stays, "sandbox.stopped")
    await next_of(returns, "sandbox.recovered")
    for sandbox, action in ((stays, "stop"), (returns, "recover")):
        died = await death_of(sandbox)
        assert (died.cause, died.exit_code, died.signal, died.action) == ("exit", 0, None, action)
    await next_of(returns, "health.healthy", after=(await next_of(returns, "sandbox.recovered"))[0])


async def test_health_is_said_when_it_changes_and_never_again(cloche: Cloche) -> None:
    sandbox = await cloche.create(SMALL, id="steady")
    await looked_at_again(cloche, sandbox, 5)
    assert await types_of(sandbox, "health") == ["health.healthy"]


async def test_one_that_does_not_answer_is_unhealthy_until_it_does(node: Node, cloche: Cloche) -> None:
    sandbox = await cloche.create(SMALL, id="silent")
    other = await cloche.create(SMALL, id="other")
    pid = await pid_of(node.data, "silent")
    os.kill(pid, signal.SIGSTOP)
    try:
        looking = asyncio.create_task(looked_at_again(cloche, other, 3))
        sequence, unhealthy = await next_of(sandbox, "health.unhealthy")
        assert isinstance(unhealthy, HealthUnhealthy)
        assert "does not answer" in unhealthy.reason
        await looking
    finally:
        os.kill(pid, signal.SIGCONT)
    await next_of(sandbox, "health.healthy", after=sequence)
    assert await types_of(sandbox, "health") == ["health.healthy", "health.unhealthy", "health.healthy"]


async def test_use_is_told_as_it_is(cloche: Cloche) -> None:
    sandbox = await cloche.create({**SMALL, "idle_stop_ms": None}, id="used")
    idle = await metrics_of(cloche, sandbox)
    assert idle.cpu_percent < 50
    assert (idle.memory_bytes > 0, idle.processes > 0) == (True, True)
    await sandbox.run("head -c 5000000 /dev/urandom > five")
    busy = await sandbox.start("while :; do :; done")
    async with asyncio.timeout(60):
        while True:
            metrics = await metrics_of(cloche, sandbox)
            if metrics.disk_bytes >= 5_000_000 and metrics.processes > idle.processes and metrics.cpu_percent > 1:
                break
    await busy.signal(signal.SIGKILL)
    await sandbox.remove()


async def test_an_idle_sandbox_is_stopped_and_a_silent_command_or_a_busy_process_keeps_it(cloche: Cloche) -> None:
    waiting = await cloche.create({**SMALL, "idle_stop_ms": IDLE_MS}, id="waiting")
    command = await waiting.start("sleep 600")
    working = await cloche.create({**SMALL, "idle_stop_ms": IDLE_MS}, id="working")
    # Nobody knows it as a command any more.
    await working.run("nohup sh -c 'while :; do :; done' > /dev/null 2>&1 &")
    idle = await cloche.create({**SMALL, "idle_stop_ms": IDLE_MS}, id="idle")
    _, stopped = await next_of(idle, "sandbox.stopped")
    assert isinstance(stopped, SandboxStopped)
    assert stopped.failure is not None
    assert stopped.failure.details["limit"] == "idle"
    await asyncio.gather(looked_at_again(cloche, waiting, 5), looked_at_again(cloche, working, 5))
    for sandbox in (waiting, working):
        assert (await load_state(cloche.bus, sandbox.id)).status == Status.RUNNING
    await command.signal(signal.SIGKILL)
    await next_of(waiting, "sandbox.stopped")
    assert await types_of(waiting, "health") == ["health.healthy", "health.limit_exceeded"]
    await working.remove()


async def written(node: Node, sandbox: str, wanted: SandboxSpec, instance: str, seconds_ago: float) -> None:
    """Its life, put into the log as if it had begun so long ago."""
    facts: list[Fact] = [
        SandboxCreating(spec=wanted, isolation=Isolation.LOCAL, node="local"),
        SandboxCreated(node="local", isolation=Isolation.LOCAL, workspace="/workspace"),
        SandboxStarted(instance=instance),
    ]
    then = clock.now() - datetime.timedelta(seconds=seconds_ago)
    async with open_as(node.settings, "spawner") as bus:
        journal = Journal(bus, service="spawner", node="local")
        for number, fact in enumerate(facts):
            await journal.append(journal.write(sandbox, fact, id=f"{sandbox}.{number}", time=then))


async def test_one_that_has_run_for_its_time_is_stopped(node: Node, cloche: Cloche) -> None:
    wanted = SandboxSpec(isolation=Isolation.LOCAL, resources=Resources(memory_mb=512, timeout_ms=60_000))
    async with load_provider("local", node.data) as provider:
        await provider.create(CreateRequest(sandbox="late", node="local", spec=wanted))
        started = await provider.start("late")
    await written(node, "late", wanted, started.instance, 61)
    sandbox = await cloche.sandbox("late")
    _, exceeded = await next_of(sandbox, "health.limit_exceeded")
    assert isinstance(exceeded, HealthLimitExceeded)
    assert (exceeded.limit, exceeded.allowed, exceeded.action) == ("timeout", 60_000, "stop")
    _, stopped = await next_of(sandbox, "sandbox.stopped")
    assert isinstance(stopped, SandboxStopped)
    assert stopped.failure is not None
    assert stopped.failure.code == "SANDBOX_TIMEOUT"


async def test_a_death_before_the_log_has_the_life_is_told_once_it_has(node: Node, cloche: Cloche) -> None:
    never = Restart(policy=RestartPolicy.NEVER)
    wanted = SandboxSpec(isolation=Isolation.LOCAL, resources=Resources(memory_mb=512), restart=never)
    async with load_provider("local", node.data) as provider:
        await provider.create(CreateRequest(sandbox="early", node="local", spec=wanted))
        started = await provider.start("early")
        os.kill(started.pid, signal.SIGKILL)
        while (seen := await provider.inspect("early")) and seen.state is SandboxState.RUNNING:
            await asyncio.sleep(0.01)
    await written(node, "early", wanted, started.instance, 1)
    sandbox = await cloche.sandbox("early")
    await next_of(sandbox, "sandbox.stopped")
    assert (await death_of(sandbox)).cause == "killed"


async def test_a_monitor_killed_while_an_order_waits_sends_it_when_it_is_due(node: Node, cloche: Cloche) -> None:
    sandbox = await cloche.create({**SMALL, **restart("on_failure", backoff_ms=4000)}, id="leased")
    await kill(node.data, "leased")
    first, _ = await next_of(sandbox, "sandbox.recovered")
    await next_of(sandbox, "health.healthy", after=first)
    await kill(node.data, "leased")
    died, fact = await next_of(sandbox, "health.died", after=first)
    await node.services["health_monitor"].kill()
    assert isinstance(fact, HealthDied)
    assert fact.due is not None
    assert fact.due > clock.now()
    await node.services["health_monitor"].start()
    await next_of(sandbox, "sandbox.recovered", after=died)
    assert (await types_of(sandbox, "health.died", "sandbox.recovered")).count("sandbox.recovered") == 2


async def test_a_death_while_no_monitor_ran_is_told_by_the_next_one(node: Node, cloche: Cloche) -> None:
    sandbox = await cloche.create({**SMALL, **restart("never")}, id="unseen")
    await node.services["health_monitor"].kill()
    await kill(node.data, "unseen")
    await node.services["health_monitor"].start()
    await next_of(sandbox, "sandbox.stopped")
    died = await death_of(sandbox)
    assert (died.cause, died.exit_code, died.signal) == ("killed", 137, 9)


async def test_two_monitors_tell_each_death_once(node: Node, cloche: Cloche) -> None:
    second = Service("health_monitor", node.data, {})
    await second.start()
    try:
        sandbox = await cloche.create({**SMALL, **restart("on_failure", max_attempts=50, backoff_ms=0)}, id="twice")
        at = 0
        for _ in range(4):
            await next_of(sandbox, "health.healthy", after=at)
            await kill(node.data, "twice")
            at, _ = await next_of(sandbox, "sandbox.recovered", after=at)
        await next_of(sandbox, "health.healthy", after=at)
    finally:
        await second.kill()
    told = await types_of(sandbox, "health", "sandbox.recovering", "sandbox.recovered")
    one = ["health.healthy", "health.died", "sandbox.recovering", "sandbox.recovered"]
    assert told == [*one * 4, "health.healthy"]


async def test_the_log_never_lets_a_death_be_told_twice(node: Node, cloche: Cloche) -> None:
    """Whoever says something of a sandbox's health must know all that was said."""
    async with open_as(node.settings, "health_monitor") as bus:
        sandbox = await cloche.create(SMALL, id="guarded")
        await next_of(sandbox, "health.healthy")
        journal = Journal(bus, service="health_monitor", node="local")
        one, other = HealthLog(bus, journal), HealthLog(bus, journal)
        before = await one.told("guarded")
        assert await other.told("guarded") == before
        assert await one.tell("guarded", HealthUnhealthy(reason="one"), knowing=before, about="life")
        # What is forgotten between the decision and the word is not read again in its favour.
        other.forget("guarded")
        assert not await other.tell("guarded", HealthHealthy(reason="other"), knowing=before, about="life")
        assert (await other.told("guarded")).health == "unhealthy"
