"""Blank sandboxes are kept ready by the spawner, and nothing is ever left behind."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.errors import Invalid
from contracts.spec import Isolation, Network, NetworkMode, SandboxSpec
from infra.client import Cloche
from infra.sandbox.local.blanks import is_ready
from infra.sandbox.local.layout import SandboxFiles
from infra.sandbox.local.liveness import hold_life_lock
from infra.sandbox.local.record import load_record
from infra.sandbox.providers import load_provider
from services.spawner.pool import Pool
from tests.conformance.inside import request
from tests.services.node import Node, eventually, node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

POOLED = {"CLOCHE_POOL": "2"}


Running = tuple[Node, Cloche]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pooled(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Keeps two ready."""
    async with node_in(tmp_path_factory.mktemp("pooled"), **POOLED) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def looking(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Keeps none, and looks for leftovers all the time."""
    data = tmp_path_factory.mktemp("looking")
    (data / "cloche.toml").write_text("[intervals]\nleftovers_s = 0.1\n")
    async with node_in(data) as found:
        yield found


async def blanks_become(data: Path, count: int) -> None:
    async with load_provider("local", data) as provider, asyncio.timeout(30):
        while sum((await provider.blanks()).values()) != count:
            await asyncio.sleep(0.02)


async def instance_of_a_blank(data: Path) -> set[str]:
    """Every blank's directory, which moves with it and keeps its socket."""
    return {str((root / "control" / "init.sock").stat().st_ino) for root in (data / "sandboxes" / ".blanks").iterdir()}


def socket_of(data: Path, sandbox: str) -> str:
    return str((data / "sandboxes" / sandbox / "control" / "init.sock").stat().st_ino)


async def test_create_takes_a_blank_and_the_pool_is_filled_again(pooled: Running) -> None:
    node, cloche = pooled
    await blanks_become(node.data, 2)
    waiting = await instance_of_a_blank(node.data)
    sandbox = await cloche.create()
    assert socket_of(node.data, sandbox.id) in waiting
    assert (await sandbox.run("echo mine > note; cat note")).stdout == b"mine\n"
    await blanks_become(node.data, 2)
    await sandbox.remove()


async def test_a_killed_spawner_leaves_its_blanks_to_the_next_one(pooled: Running) -> None:
    node, cloche = pooled
    await blanks_become(node.data, 2)
    waiting = await instance_of_a_blank(node.data)
    await node.restart("spawner")
    sandboxes = [await cloche.create() for _ in range(2)]
    assert {socket_of(node.data, each.id) for each in sandboxes} == waiting


async def test_a_spawner_that_is_told_to_end_removes_its_blanks(pooled: Running) -> None:
    node, _ = pooled
    await blanks_become(node.data, 2)
    try:
        assert await node.services["spawner"].stop() == 0
        assert not list((node.data / "sandboxes" / ".blanks").iterdir())
    finally:
        await node.services["spawner"].start()


async def test_creates_at_once_beyond_the_pool_all_succeed(pooled: Running) -> None:
    node, cloche = pooled
    await blanks_become(node.data, 2)
    sandboxes = await asyncio.gather(*(cloche.create() for _ in range(6)))
    outputs = await asyncio.gather(*(_tell(cloche, each.id) for each in sandboxes))
    assert outputs == [each.id.encode() for each in sandboxes]


async def _tell(cloche: Cloche, sandbox: str) -> bytes:
    found = await cloche.sandbox(sandbox)
    return (await found.run(f"printf {sandbox} > me; cat me")).stdout


async def test_one_that_cannot_be_made_keeps_no_other_and_one_that_dies_is_replaced(tmp_path: Path) -> None:
    never = SandboxSpec(isolation=Isolation.LOCAL, network=Network(mode=NetworkMode.FULL))
    spec = SandboxSpec(isolation=Isolation.LOCAL)
    async with load_provider("local", tmp_path) as provider:
        pool = Pool(providers={Isolation.LOCAL: provider}, specs=[never, spec], size=1, after_s=0, look_s=0.05)
        filling = asyncio.create_task(pool.keep_filled())
        try:
            await blanks_become(tmp_path, 1)
            (first,) = (tmp_path / "sandboxes" / ".blanks").iterdir()
            record = load_record(first / "runtime.json")
            assert record is not None
            assert record.identity is not None
            os.kill(record.identity.pid, signal.SIGKILL)
            await eventually(lambda: not is_ready(SandboxFiles(first)))
            await blanks_become(tmp_path, 1)
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)
        assert await provider.blanks() == {}


async def test_what_failed_is_removed_and_what_cannot_be_removed_keeps_no_other(looking: Running) -> None:
    node, cloche = looking
    doomed = ("a-stuck", "b-failed")
    async with load_provider("local", node.data) as provider:
        for each in doomed:
            with pytest.raises(Invalid):
                await cloche.create({"network": {"mode": "full"}}, id=each)
        await node.services["spawner"].kill()
        for each in doomed:
            await provider.create(request(each))
        files = SandboxFiles(node.data / "sandboxes" / "a-stuck")
        files.record.write_text("damaged")
        held = hold_life_lock(files.log)
        assert held is not None
        try:
            await node.services["spawner"].start()
            async with asyncio.timeout(30):
                while "b-failed" in await provider.sandboxes():
                    await asyncio.sleep(0.02)
        finally:
            os.close(held)


async def test_what_the_log_says_was_removed_is_removed_and_a_stranger_is_left_alone(looking: Running) -> None:
    node, cloche = looking
    async with load_provider("local", node.data) as provider:
        sandbox = await cloche.create()
        await sandbox.remove()
        await node.services["spawner"].kill()
        for each in ("stranger", sandbox.id):
            await provider.create(request(each))
        await node.services["spawner"].start()
        async with asyncio.timeout(30):
            while sandbox.id in await provider.sandboxes():
                await asyncio.sleep(0.02)
        assert "stranger" in await provider.sandboxes()
