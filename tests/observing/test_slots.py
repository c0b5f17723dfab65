"""Prepared slots, as a real keeper counts them."""

import asyncio

import pytest

from infra.observing import catalogue, polling
from infra.observing.figures import samples
from services.executor.figures import watch_slots
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
    async with docker_rig(images.busybox()) as (made, _):
        watching = asyncio.create_task(watch_slots(made.client))
        try:
            await made.shell("true")
            await until(lambda: dict(samples(catalogue.slots)).get(("miss",)) == 1)
            await made.client.prepare(made.target, ENV)
            await until(lambda: samples(catalogue.slots_ready)[0].value > 0)
            await made.shell("true")
            await until(lambda: dict(samples(catalogue.slots)).get(("hit",)) == 1)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
