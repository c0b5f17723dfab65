import asyncio
from pathlib import Path

import msgspec
import pytest
from rich.progress import Progress

from contracts.errors import Invalid
from contracts.spec import merge
from infra.docker.containers import Containers, ContainerSummary
from infra.docker.engine import Engine
from infra.docker.finding import find_engine
from infra.docker.volumes import Volumes
from infra.keeper.docker.slots import FEWEST
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.planning import HOME_LABEL
from infra.sandbox.shape import shape_of
from services.cli.bench.bare_docker import BareDocker
from services.cli.bench.claim import claim, of_another_shape
from services.cli.bench.docker_exec import BY_API, BY_COMMAND_LINE, docker_exec, target_of
from services.cli.bench.file_calls import file_calls
from services.cli.bench.rig import Rig, running_node, settings_in
from tests import images
from tests.bench.tiny import TINY

# The node is left to itself on purpose: it must not end with whoever started it.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


async def test_figures_of_docker_stand_beside_the_engine_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    data = tmp_path / "node"
    async with running_node(data, Progress(disable=True), images.busybox()) as rig:
        figures = await docker_exec(rig, TINY) + await claim(rig, TINY) + await file_calls(rig, TINY)
        await slots_are_waited_for_until_they_are_all_there(rig)
        await an_image_without_a_shell_has_no_slots_to_measure(rig)
    assert [(figure.what, figure.beside) for figure in figures] == [
        ("exec round trip on docker, slot ready, p50", BY_API),
        ("exec round trip on docker, slot ready, p50", BY_COMMAND_LINE),
        ("exec round trip on docker, slot ready, p99", BY_API),
        ("exec round trip on docker, 25 in a row, each", BY_API),
        ("create on docker, from the warm pool", "cold create"),
        ("file of 4 KB on docker, read, p50", "docker exec … cat"),
        ("file of 4 KB on docker, write, p50", "docker exec -i … sh -c 'cat > …'"),
    ]
    assert all(figure.ratio for figure in figures)
    assert [figure.what for figure in figures if figure.aim] == [figures[at].what for at in (0, 4, 5, 6)]
    assert await left_in_the_engine(data) == ()


async def slots_are_waited_for_until_they_are_all_there(rig: Rig) -> None:
    sandbox = await rig.cloche.create()
    await sandbox.run(["true"])
    target = await target_of(rig, sandbox)
    async with Engine(target.engine) as engine:
        await BareDocker(engine, target).until_stocked()
        asked = await (await engine.client()).containers.container(target.container).show()
    assert len(asked["ExecIDs"]) >= FEWEST


async def an_image_without_a_shell_has_no_slots_to_measure(rig: Rig) -> None:
    sandbox = await rig.cloche.create({"docker": {"image": images.shell_less()}})
    with pytest.raises(Invalid, match="it has no shell"):
        await target_of(rig, sandbox)


async def left_in_the_engine(data: Path) -> tuple[ContainerSummary, ...]:
    async with Engine(find_engine()) as engine:
        return await Containers(engine).labelled({HOME_LABEL: DataFiles(data.resolve()).home})


async def test_a_node_that_ends_while_it_makes_a_blank_leaves_none(tmp_path: Path) -> None:
    data = tmp_path / "node"
    async with running_node(data, Progress(disable=True), images.busybox()), asyncio.timeout(60):
        while not await left_in_the_engine(data):
            await asyncio.sleep(0.001)
    assert await left_in_the_engine(data) == ()
    async with Engine(find_engine()) as engine:
        assert await Volumes(engine).labelled(HOME_LABEL, DataFiles(data.resolve()).home) == ()


@pytest.mark.parametrize("image", [None, "some/image:1", 'odd"name'])
def test_a_cold_create_is_one_that_no_blank_can_serve(tmp_path: Path, image: str | None) -> None:
    settings = settings_in(tmp_path / "node", image)
    assert settings.sandbox.isolation == ("local" if image is None else "docker")
    assert image is None or settings.sandbox.docker.image == image
    cold = merge(settings.sandbox, msgspec.json.encode(of_another_shape(settings)))
    assert shape_of(cold) != shape_of(settings.sandbox)
    assert cold.docker == settings.sandbox.docker


def test_an_environment_that_forces_another_isolation_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_ISOLATION", "local")
    with pytest.raises(Invalid, match="unset CLOCHE_ISOLATION"):
        settings_in(tmp_path / "node", "some/image:1")
