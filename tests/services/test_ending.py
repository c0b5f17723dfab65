"""Ending commands whose sandbox does not answer."""

import asyncio

import pytest

from contracts.errors import Conflict
from services.executor.ending import at_time_limit
from tests import images
from tests.keeper.docker_rig import docker_rig
from tests.keeper.test_docker_lives import becomes


async def test_a_time_limit_that_passes_while_the_sandbox_is_paused_is_kept_when_it_goes_on() -> None:
    # Without a shell: a pause while a slot is being opened would stop the engine's own process in the container.
    async with docker_rig(images.busybox(), None) as (made, box):
        exec_id = await made.start("sleep", "1000")
        await box.container.pause()

        async def is_noted() -> bool:
            return (await made.client.info(exec_id)).notes == ("time",)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(at_time_limit(made.client, exec_id, 0, "time"))
            await becomes(is_noted)
            with pytest.raises(Conflict):
                await made.client.signal(exec_id, 15)
            await box.container.unpause()
            async with asyncio.timeout(30):
                assert (await made.final(exec_id)).exit.notes[0] == "time"
