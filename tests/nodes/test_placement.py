"""Create orders go to any node, and the one that can takes them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.errors import Invalid, SandboxResourceLimitExceeded
from tests.nodes.pair import Pair, pair_in

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    place: Path = tmp_path_factory.mktemp("placement")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", "unix:///nobody/listens.sock")
        async with pair_in(place, most=2, wait_s=10.0, without=("egress", "health_monitor")) as running:
            yield running


async def test_labels_choose_the_node_and_room_is_found_wherever_it_is(pair: Pair) -> None:
    wanted = await pair.cloche.create({"node_labels": {"name": "n2"}}, id="labelled")
    assert wanted.state.node == "n2"
    rest = await asyncio.gather(*(pair.cloche.create(id=f"any-{number}") for number in range(3)))
    assert sorted(each.state.node for each in [wanted, *rest]) == ["n1", "n1", "n2", "n2"]
    with pytest.raises(SandboxResourceLimitExceeded, match=r"no node has had room for \d+ s: .*n1 has no room.*"):
        await pair.cloche.create(id="too-many")
    waiting = asyncio.create_task(pair.cloche.create({"node_labels": {"name": "n2"}}, id="waits"))
    await wanted.remove()
    assert (await waiting).state.node == "n2"
    for each in [*rest, await waiting]:
        await each.remove()


async def test_what_no_node_could_ever_have_is_refused_at_once_with_the_reason(pair: Pair) -> None:
    with pytest.raises(Invalid, match=r"no node can have it: n\d lacks label gpu=yes; n\d lacks label gpu=yes"):
        await pair.cloche.create({"node_labels": {"gpu": "yes"}})
    with pytest.raises(Invalid, match=r"n\d lacks docker sandboxes"):
        await pair.cloche.create({"isolation": "docker"})
