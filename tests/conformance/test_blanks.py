"""What every provider promises about sandboxes that wait for their specification."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from contracts.spec import Environment, Resources
from infra.sandbox.base import SandboxState
from infra.sandbox.providers import load_provider
from infra.sandbox.shape import shape_of
from tests.conformance.inside import Inside, a_provider, request, spec_on
from tests.conformance.tiers import HAVE_BLANKS

pytestmark = pytest.mark.parametrize("name", HAVE_BLANKS)


async def test_a_blank_becomes_the_next_sandbox_of_its_shape(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        spec = spec_on(name)
        await provider.prepare(spec)
        assert await provider.blanks() == {shape_of(spec): 1}
        assert await provider.sandboxes() == ()
        wanted = msgspec.structs.replace(spec, environment=Environment(set={"COLOUR": "blue"}))
        asked = request("sb-1", wanted, on=name)
        created = await provider.create(asked)
        assert await provider.blanks() == {}
        inspection = await provider.inspect("sb-1")
        assert inspection is not None
        assert inspection.state is SandboxState.RUNNING
        started = await provider.start("sb-1")
        assert started.instance == inspection.instance
        assert await provider.create(asked) == created
        inside = await Inside(provider, "sb-1").begin()
        assert (await inside.sh("echo $COLOUR; touch made; ls -A")).out == "blue\nmade\n"
        assert (Path(created.host_workspace) / "made").exists()
        await provider.stop("sb-1")
        again = await provider.start("sb-1")
        assert again.instance != started.instance
        assert (await inside.sh("ls -A")).out == "made\n"
        await provider.remove("sb-1")
        assert await provider.inspect("sb-1") is None


async def test_a_claimed_sandbox_looks_from_inside_like_a_cold_one(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        await provider.prepare(spec_on(name))
        looks = []
        for sandbox in ("sb-claimed", "sb-cold"):
            await provider.create(request(sandbox, on=name))
            inside = await Inside(provider, sandbox).begin()
            looks.append(
                (
                    await inside.sh("env | sort | grep -v CLOCHE_EXEC; hostname; id; pwd; ulimit -a; cat /proc/1/comm")
                ).out
            )
        assert looks[0] == looks[1]


async def test_two_creates_at_once_never_take_the_same_blank(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        spec = spec_on(name)
        await provider.prepare(spec)
        names = [f"sb-{number}" for number in range(4)]
        await asyncio.gather(
            *(provider.create(msgspec.structs.replace(request(each, on=name), spec=spec)) for each in names)
        )
        instances = [(await provider.start(each)).instance for each in names]
        assert len(set(instances)) == len(names)


async def test_a_blank_of_another_shape_is_not_taken(tmp_path: Path, name: str) -> None:
    async with a_provider(tmp_path, name) as provider:
        spec = spec_on(name)
        await provider.prepare(spec)
        other = msgspec.structs.replace(spec, resources=Resources(memory_mb=1024))
        await provider.create(request("sb-1", other, on=name))
        assert await provider.blanks() == {shape_of(spec): 1}


async def test_blanks_outlive_the_provider_and_are_discarded_beyond_what_is_kept(tmp_path: Path, name: str) -> None:
    spec = spec_on(name)
    async with load_provider(name, tmp_path) as provider:
        for _ in range(3):
            await provider.prepare(spec)
    async with load_provider(name, tmp_path) as provider:
        await provider.sweep()
        assert await provider.blanks() == {shape_of(spec): 3}
        await provider.discard_blanks({shape_of(spec): 1})
        assert await provider.blanks() == {shape_of(spec): 1}
        await provider.discard_blanks()
        assert await provider.blanks() == {}
