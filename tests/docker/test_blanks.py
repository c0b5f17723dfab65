"""Containers that wait, and what a crash in the middle of anything leaves."""

import asyncio
from pathlib import Path
from typing import Self

import msgspec
import pytest

from contracts.errors import SandboxInvalidState
from contracts.spec import CopyDirectory, Resources, SandboxSpec, Workspace
from infra.docker.engine import Engine
from infra.sandbox.base import SandboxState
from infra.sandbox.docker.blanks import Blanks
from infra.sandbox.docker.imaging import ImageSource
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.making import Maker
from infra.sandbox.docker.planning import blank_name
from infra.sandbox.docker.provider import DockerProvider
from infra.sandbox.docker.record import load_record, store_record
from infra.sandbox.docker.sweeping import Sweeper
from infra.sandbox.shape import shape_of
from tests.docker.containers import a_provider, engine, engine_client, left_of, request, sh, spec


class Parts:
    """What a provider is made of, to stop between any two steps."""

    def __init__(self, data: Path) -> None:
        self.data = DataFiles(data.resolve())
        self.engine = Engine(engine())
        self.images = ImageSource(self.engine)
        self.maker = Maker(self.engine, self.data)
        self.blanks = Blanks(self.maker, self.data)
        self.sweeper = Sweeper(self.engine, self.maker, self.data, self.blanks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.engine.aclose()


async def instance_in(provider: DockerProvider, sandbox: str) -> str | None:
    inspection = await provider.inspect(sandbox)
    assert inspection is not None
    return inspection.instance


async def test_a_blank_becomes_a_sandbox_with_a_name_a_workspace_and_variables_of_its_own(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("copied\n")
    wanted = spec(agent_id="ada", workspace=Workspace(source=CopyDirectory(path=str(source))))
    async with a_provider(tmp_path / "data") as provider:
        await provider.prepare(spec())
        assert await provider.blanks() == {shape_of(spec()): 1}
        assert await provider.sandboxes() == ()
        before = await left_of(tmp_path / "data")
        await provider.create(request(wanted=wanted))
        assert (await left_of(tmp_path / "data")).containers == before.containers
        assert await provider.blanks() == {}
        assert (await provider.start("sb-1")).instance == await instance_in(provider, "sb-1")
        assert (await sh(provider, "cat file; echo $HOME; echo more >> file")).out == "copied\n/workspace\n"
        async with engine_client() as docker:
            shown = await docker.containers.container(before.containers[0]).show()
        assert shown["Name"].startswith("/cloche-ada-sb-1-")
        await provider.remove("sb-1")
    assert await left_of(tmp_path / "data") == ([], [], [])


async def test_two_creates_at_once_never_take_the_same_blank(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as first, DockerProvider(tmp_path, engine()) as second:
        await first.prepare(spec())
        await asyncio.gather(
            *(each.create(request(f"sb-{number}")) for number, each in enumerate((first, second, first, second)))
        )
        assert len((await left_of(tmp_path)).containers) == 4
        running = [await first.inspect(f"sb-{number}") for number in range(4)]
        assert sorted(each.state for each in running if each) == [SandboxState.RUNNING] + [SandboxState.STOPPED] * 3


async def test_a_dead_blank_is_passed_over_and_removed(tmp_path: Path) -> None:
    async with a_provider(tmp_path) as provider:
        await provider.prepare(spec())
        (dead,) = (await left_of(tmp_path)).containers
        await provider.prepare(spec())
        async with engine_client() as docker:
            await docker.containers.container(dead).kill()
            await docker.containers.container(dead).wait()
        assert await provider.blanks() == {shape_of(spec()): 1}
        for sandbox in ("sb-1", "sb-2"):
            await provider.create(request(sandbox))
            await provider.start(sandbox)
        assert dead not in (await left_of(tmp_path)).containers
        assert len((await left_of(tmp_path)).containers) == 2


async def test_blanks_beyond_what_is_kept_go(tmp_path: Path) -> None:
    other = spec(resources=Resources(memory_mb=600))
    async with a_provider(tmp_path) as provider:
        for wanted in (spec(), spec(), other):
            await provider.prepare(wanted)
        await provider.discard_blanks({shape_of(spec()): 1})
        assert await provider.blanks() == {shape_of(spec()): 1}
        await provider.discard_blanks()
    assert await left_of(tmp_path) == ([], [], [])


async def test_a_crash_while_a_blank_is_made_is_swept(tmp_path: Path) -> None:
    async with Parts(tmp_path) as parts, a_provider(tmp_path) as provider:
        image = await parts.images.have(spec().docker.image)
        record = await parts.maker.begin(spec(), image)
        await parts.maker.make(record, blank_name(record.key))
        left = await left_of(tmp_path)
        assert (len(left.containers), len(left.volumes), left.files) == (1, 1, [record.key])
        await provider.sweep()
        assert await left_of(tmp_path) == left, "what is young may be in the making"
        await parts.sweeper.sweep(young_s=-1)
        assert await left_of(tmp_path) == ([], [], [])


async def test_a_sweep_spares_sandboxes_and_blanks(tmp_path: Path) -> None:
    async with Parts(tmp_path) as parts, a_provider(tmp_path) as provider:
        await provider.create(request())
        await provider.start("sb-1")
        await provider.prepare(spec())
        before = await left_of(tmp_path)
        await parts.sweeper.sweep(young_s=-1)
        assert await left_of(tmp_path) == before
        assert (await sh(provider, "echo alive")).out == "alive\n"


async def test_another_node_on_the_same_engine_is_left_alone_by_the_sweep(tmp_path: Path) -> None:
    async with Parts(tmp_path / "mine") as parts, a_provider(tmp_path / "theirs") as theirs:
        await theirs.create(request())
        await parts.sweeper.sweep(young_s=-1)
        await theirs.start("sb-1")


async def test_a_claim_that_was_cut_short_is_finished_by_the_next_create(tmp_path: Path) -> None:
    async with Parts(tmp_path) as parts, a_provider(tmp_path) as provider:
        await provider.prepare(spec())
        image = await parts.images.have(spec().docker.image)
        taken = await parts.blanks.take("sb-1", shape_of(spec()), image)
        assert taken is not None
        (parts.data.workspace(taken.key) / "half").mkdir()
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert inspection.state is SandboxState.CREATING
        for order in (provider.start, provider.target):
            with pytest.raises(SandboxInvalidState):
                await order("sb-1")
        await parts.sweeper.sweep(young_s=-1)
        await provider.create(request())
        assert await instance_in(provider, "sb-1") == taken.instance
        assert (await sh(provider, "ls -A")).out == ""


@pytest.mark.parametrize("made", [False, True])
async def test_a_cold_create_that_was_cut_short_is_finished_by_the_next(tmp_path: Path, made: bool) -> None:
    async with Parts(tmp_path) as parts, a_provider(tmp_path) as provider:
        record = await parts.maker.begin(spec(), await parts.images.have(spec().docker.image))
        store_record(parts.data.record("sb-1"), record)
        if made:
            await parts.maker.make(record, "cloche-agent-sb-1-" + record.key)
        await provider.create(request())
        assert len((await left_of(tmp_path)).containers) == 1
        await provider.start("sb-1")


async def test_a_create_that_was_cut_short_may_become_another_sandbox(tmp_path: Path) -> None:
    other: SandboxSpec = spec(resources=Resources(memory_mb=600))
    async with Parts(tmp_path) as parts, a_provider(tmp_path) as provider:
        record = await parts.maker.begin(spec(), await parts.images.have(spec().docker.image))
        await parts.maker.make(record, "cloche-agent-sb-1-" + record.key)
        store_record(parts.data.record("sb-1"), record)
        await provider.create(request(wanted=other))
        assert len((await left_of(tmp_path)).containers) == 1
        stored = load_record(parts.data.record("sb-1"))
        assert stored is not None
        assert stored.resources == other.resources


async def test_a_removal_that_was_cut_short_is_finished_by_the_next(tmp_path: Path) -> None:
    async with Parts(tmp_path) as parts, a_provider(tmp_path) as provider:
        await provider.create(request())
        record = load_record(parts.data.record("sb-1"))
        assert record is not None
        await parts.maker.containers.remove(record.container)
        await provider.remove("sb-1")
    assert await left_of(tmp_path) == ([], [], [])


async def test_a_start_that_was_cut_short_is_taken_up_by_the_next(tmp_path: Path) -> None:
    async with Parts(tmp_path) as parts, a_provider(tmp_path) as provider:
        await provider.create(request())
        started = await provider.start("sb-1")
        path = parts.data.record("sb-1")
        record = load_record(path)
        assert record is not None
        store_record(path, msgspec.structs.replace(record, instance=None))
        assert (await provider.start("sb-1")).instance == started.instance


async def test_a_damaged_record_is_said_so_and_can_be_removed(tmp_path: Path) -> None:
    async with Parts(tmp_path) as parts, a_provider(tmp_path) as provider:
        await provider.create(request())
        parts.data.record("sb-1").write_bytes(b"{")
        with pytest.raises(SandboxInvalidState, match="damaged"):
            await provider.inspect("sb-1")
        await parts.sweeper.sweep(young_s=-1)
        assert len((await left_of(tmp_path)).containers) == 1, "it may be the damaged one's"
        await provider.remove("sb-1")
        await parts.sweeper.sweep(young_s=-1)
    assert await left_of(tmp_path) == ([], [], [])
