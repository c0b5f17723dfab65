"""Many random kills over running work: nothing is left in between, nothing is there twice, no death without a cause."""

import asyncio
import contextlib
import os
import random
from pathlib import Path

import pytest

from contracts import codec, subjects
from contracts.errors import ClocheError
from contracts.events.health import HealthDied
from contracts.events.sandbox import SandboxRecovered, SandboxStarted
from contracts.proof import Proof
from contracts.state import Status
from infra.bus import reader
from infra.client import Cloche, Sandbox
from infra.client.sandbox import load_state
from infra.sandbox.base import SandboxState as Seen
from infra.sandbox.providers import load_provider
from tests.recovery.work import first_process, kill, on_disk, whereabouts, work
from tests.services.node import Node, node_in

KILLS = int(os.environ.get("CLOCHE_FAULT_KILLS", "24"))
SEED = int(os.environ.get("CLOCHE_FAULT_SEED", "20261116"))
SANDBOXES = 4
WORKERS = 2
SPEC = {"restart": {"policy": "always", "max_attempts": 100, "backoff_ms": 0}}
SERVICES = ("health_monitor", "spawner", "executor", "file_watcher")

pytestmark = [pytest.mark.timeout(120 + 6 * KILLS)]


async def keep_working(sandbox: Sandbox) -> None:
    """What is lost or refused, because its sandbox is dying, is asked for again."""
    number = 0
    while True:
        number += 1
        with contextlib.suppress(ClocheError):
            await sandbox.run(f"for i in 1 2 3; do echo {number} $i; sleep 0.1; done >> log-{number % 5}")


async def strike(node: Node, sandboxes: list[Sandbox], choice: random.Random) -> int:
    """Mostly at a sandbox, sometimes at a service, sometimes at both at once. How many sandboxes it killed."""
    aim = choice.random()
    victims = [kill_if_alive(node.data, choice.choice(sandboxes))] if aim < 0.9 else []
    service = choice.choice(SERVICES) if aim > 0.8 else None
    killed, _ = await asyncio.gather(asyncio.gather(*victims), node.restart(service) if service else asyncio.sleep(0))
    return sum(killed)


async def kill_if_alive(data: Path, sandbox: Sandbox) -> bool:
    """False for one that is just being brought back."""
    with contextlib.suppress(AssertionError, ProcessLookupError):
        await kill(data, sandbox)
        return True
    return False


async def is_settled(node: Node, cloche: Cloche, sandbox: Sandbox) -> bool:
    """The log and the node say the same: it runs, and it is this life of it."""
    state = await load_state(cloche.bus, sandbox.id)
    if state.status != Status.RUNNING:
        return False
    async with load_provider("local", node.data) as provider:
        seen = await provider.inspect(sandbox.id)
    return seen is not None and seen.state is Seen.RUNNING and seen.instance == state.instance


async def check_story(cloche: Cloche, sandbox: Sandbox) -> int:
    """Every life but the last has exactly one death with a cause, and one recovery after it. How many deaths."""
    lives: list[str] = []
    deaths: dict[str | None, str] = {}
    proof = Proof()
    async for entry in reader.read(cloche.bus, subjects.events_of(sandbox.id), 1, follow=False):
        head = codec.decode_head(entry.data)
        proof.feed(entry.seq, head)
        match codec.decode_fact(head):
            case SandboxStarted(instance=instance) | SandboxRecovered(instance=instance):
                lives.append(instance)
            case HealthDied() as died:
                assert died.instance not in deaths, "a death is told twice"
                assert died.cause
                deaths[died.instance] = died.cause
    assert len(set(lives)) == len(lives)
    assert set(deaths) == set(lives[:-1])
    assert proof.summary().findings == ()
    return len(deaths)


async def test_random_kills_leave_every_sandbox_running_once_with_every_death_explained(tmp_path: Path) -> None:
    choice = random.Random(SEED)
    async with node_in(tmp_path) as (node, cloche):
        sandboxes = [await cloche.create(SPEC, id=f"sb-{number}") for number in range(SANDBOXES)]
        for sandbox in sandboxes:
            await work(sandbox)
        trees = [await on_disk(tmp_path, each) for each in sandboxes]
        working = [asyncio.create_task(keep_working(each)) for each in sandboxes for _ in range(WORKERS)]
        try:
            killed = 0
            while killed < KILLS:
                await asyncio.sleep(choice.uniform(0, 0.4))
                killed += await strike(node, sandboxes, choice)
        finally:
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
        for sandbox, tree in zip(sandboxes, trees, strict=True):
            async with asyncio.timeout(90):
                while not await is_settled(node, cloche, sandbox):
                    await asyncio.sleep(0.1)
            now = await on_disk(tmp_path, sandbox)
            assert {path: now.get(path) for path in tree} == tree
            assert (await sandbox.run("echo works")).stdout == b"works\n"
        # One that is killed before the log has its life is begun again, and that is no death.
        assert killed // 2 <= sum([await check_story(cloche, each) for each in sandboxes]) <= killed
        assert sorted(await whereabouts(tmp_path)) == [f"local:sb-{number}" for number in range(SANDBOXES)]
        pids = [await first_process(tmp_path, each) for each in sandboxes]
        assert inits_of(tmp_path) == sorted(pids)


def inits_of(data: Path) -> list[int]:
    """First processes of sandboxes whose workspace is on this node. What started them has the same arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_first = "\t1\n" in (process / "status").read_text().partition("NSpid:")[2].partition("NSpgid")[0]
            if is_first and b"init.pyc" in (process / "cmdline").read_bytes():
                found += [int(process.name)] if f"{data}/" in (process / "mountinfo").read_text() else []
    return sorted(found)
