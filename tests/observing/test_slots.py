"""Prepared slots, as a real keeper counts them."""

import asyncio

import pytest

from infra.keeper.protocol import Greeting
from infra.observing import catalogue, polling
from infra.observing.figures import samples
from services.executor.figures import Slots
from tests import images
from tests.bus.servers import until
from tests.keeper.docker_rig import docker_rig
from tests.keeper.rig import ENV


async def test_starts_with_and_without_a_slot_are_counted_and_so_are_those_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "_is_read", True)
    monkeypatch.setattr(polling, "EVERY_S", 0.05)
    images.require_docker()
    before = dict(samples(catalogue.slots))
    async with docker_rig(images.busybox()) as (made, _):
        watching = asyncio.create_task(Slots().watch(made.client))
        try:
            await made.shell("true")
            await until(lambda: dict(samples(catalogue.slots)).get(("miss",)) == before.get(("miss",), 0) + 1)
            await made.client.prepare(made.target, ENV)
            await until(lambda: samples(catalogue.slots_ready)[0].value > 0)
            await made.shell("true")
            await until(lambda: dict(samples(catalogue.slots)).get(("hit",)) == before.get(("hit",), 0) + 1)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def told(instance: str, hits: int) -> Greeting:
    return Greeting(instance=instance, version=1, pid=1, slot_hits=hits)


def test_every_start_counts_once_whichever_keeper_it_was_and_however_often_that_is_asked() -> None:
    hits = catalogue.slots.of("hit")
    before = hits.value
    one, of_another_partition = Slots(), Slots()
    for slots, greeting in (
        (one, told("a", 3)),
        (of_another_partition, told("b", 10)),
        (one, told("a", 4)),
        (of_another_partition, told("b", 10)),
        (one, told("the next one", 2)),
    ):
        slots.take(greeting)
    assert hits.value - before == 4 + 10 + 2
