"""Whatever a sandbox died of, it comes back with the very same workspace, and the log says why."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from contracts import codec
from contracts.events.health import DeathCause, HealthDied
from contracts.state import Status
from infra.client import Cloche, Sandbox
from infra.client.sandbox import load_state
from tests.conformance.tiers import require
from tests.docker.containers import engine_client
from tests.docker.own_engine import OwnEngine
from tests.faults.docker_node import docker_node, spec, target_of
from tests.images import busybox
from tests.recovery.work import first_process, kill, kinds, next_recovered, on_disk, work
from tests.services.node import Node

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

RESTART: dict[str, Any] = {"restart": {"policy": "always", "backoff_ms": 10}}


def wanted(tier: str, image: str | None = None) -> dict[str, Any]:
    return {"isolation": tier, **(spec(image) if tier == "docker" else {"resources": {"memory_mb": 512}}), **RESTART}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    data = tmp_path_factory.mktemp("node")
    (data / "cloche.toml").write_text("[intervals]\nhealth_s = 0.2\n")
    async with Node(data) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(node: Node) -> AsyncIterator[Cloche]:
    async with node.connect() as cloche:
        yield cloche


async def end(data: Path, sandbox: Sandbox) -> None:
    os.kill(await first_process(data, sandbox), signal.SIGTERM)


async def starve(_: Path, sandbox: Sandbox) -> None:
    """The sandbox makes its own first process the one that the kernel takes first."""
    await sandbox.start("echo 1000 > /proc/1/oom_score_adj; dd if=/dev/zero of=/tmp/full bs=1M")


async def take_away(data: Path, sandbox: Sandbox) -> None:
    async with engine_client() as docker:
        await docker.containers.container((await target_of(data, sandbox.id)).container).delete(force=True)


Fate = Callable[[Path, Sandbox], Awaitable[None]]


async def is_back(cloche: Cloche, sandbox: Sandbox, life: str | None) -> HealthDied:
    """The death of that life, once it is recovered from. What ran in it is lost, and the next command works."""
    recovered = await next_recovered(sandbox)
    state = await load_state(cloche.bus, sandbox.id)
    assert (state.status, state.instance, recovered.attempt) == (Status.RUNNING, recovered.instance, 1)
    assert recovered.instance != life
    deaths = [codec.decode_fact(event.head) async for event in sandbox.events(types=["health.died"])]
    assert len(deaths) == 1, [str(each) for each in deaths]
    died = deaths[0]
    assert isinstance(died, HealthDied)
    assert died.instance == life
    assert (await sandbox.run("cat src/main.py")).stdout == b"print(1)\n"
    return died


@pytest.mark.parametrize(
    ("tier", "fate", "cause"),
    [
        ("local", end, DeathCause.EXIT),
        ("local", kill, DeathCause.KILLED),
        ("docker", end, DeathCause.EXIT),
        ("docker", kill, DeathCause.KILLED),
        ("docker", starve, DeathCause.OOM),
        ("docker", take_away, DeathCause.KILLED),
    ],
)
async def test_it_comes_back_as_it_was_whatever_it_died_of(
    node: Node, cloche: Cloche, tier: str, fate: Fate, cause: DeathCause
) -> None:
    require(tier)
    sandbox = await cloche.create(wanted(tier))
    await work(sandbox)
    running = await sandbox.start("echo up; sleep 600")
    async for chunk in running.output():
        assert chunk.data == b"up\n"
        break
    before, life = await on_disk(node.data, sandbox), sandbox.state.instance
    await fate(node.data, sandbox)
    died = await is_back(cloche, sandbox, life)
    assert died.cause == cause
    assert await on_disk(node.data, sandbox) == before
    # A first process that ends in order asks everything else to end before, and that may be seen or not.
    assert (await running.wait()).outcome in ("lost", *(["completed"] if fate is end else []))
    assert (await kinds(sandbox))[3:] == ["recovering", "recovered"]
    await sandbox.remove()


@pytest.mark.parametrize("down", ["health_monitor", "spawner", "everything"])
async def test_it_comes_back_also_when_the_services_were_down_meanwhile(node: Node, cloche: Cloche, down: str) -> None:
    sandbox = await cloche.create(RESTART)
    await work(sandbox)
    before, life = await on_disk(node.data, sandbox), sandbox.state.instance
    services = [service for name, service in node.services.items() if down in (name, "everything")]
    await asyncio.gather(*(service.kill() for service in services))
    await kill(node.data, sandbox)
    await asyncio.gather(*(service.start() for service in services))
    assert (await is_back(cloche, sandbox, life)).cause == DeathCause.KILLED
    assert await on_disk(node.data, sandbox) == before
    await sandbox.remove()


async def test_a_full_disk_stops_it_and_a_person_has_it_back_as_it_was(node: Node, cloche: Cloche) -> None:
    sandbox = await cloche.create({"resources": {"disk_mb": 1024}, **RESTART})
    await work(sandbox)
    full = await sandbox.start("for i in 1 2; do dd if=/dev/zero of=full-$i bs=1M count=600; done; sleep 600")
    async with asyncio.timeout(120):
        async for event in sandbox.events(types=["sandbox.stopped"], follow=True):
            assert b"SANDBOX_RESOURCE_LIMIT_EXCEEDED" in event.raw
            break
    assert (await full.wait()).outcome == "lost"
    before = await on_disk(node.data, sandbox)
    await sandbox.recover()
    assert await on_disk(node.data, sandbox) == before
    await sandbox.remove()


async def test_it_comes_back_after_its_engine_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with OwnEngine() as own:
        monkeypatch.setenv("DOCKER_HOST", own.address)
        image = await asyncio.to_thread(busybox, own.address)
        async with docker_node(tmp_path) as (_, cloche):
            sandbox = await cloche.create(wanted("docker", image), id="sb")
            await work(sandbox)
            before, life = await on_disk(tmp_path, sandbox), sandbox.state.instance
            await own.kill()
            await own.start()
            await is_back(cloche, sandbox, life)
            assert await on_disk(tmp_path, sandbox) == before
