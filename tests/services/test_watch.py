"""Nothing dies in silence, however soon."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from contracts.events.sandbox import SandboxCreating, SandboxStarted
from contracts.spec import Isolation, SandboxSpec
from contracts.state import Status
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.sandbox.base import Provider, ProviderEvent, SandboxState
from infra.sandbox.providers import load_provider
from services.spawner.watch import Watch
from tests.bus.servers import nats_in
from tests.conformance.inside import request

SPEC = SandboxSpec(isolation=Isolation.LOCAL)


class OneDeath:
    """Tells of one, and knows when it was heard."""

    def __init__(self, event: ProviderEvent) -> None:
        self._event = event
        self.heard = asyncio.Event()

    async def events(self) -> AsyncIterator[ProviderEvent]:
        yield self._event
        self.heard.set()
        await asyncio.Event().wait()


async def killed(provider: Provider) -> str:
    """A sandbox that was started and is dead; its instance."""
    await provider.create(request("sb-1"))
    started = await provider.start("sb-1")
    os.kill(started.pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        while (seen := await provider.inspect("sb-1")) and seen.state is SandboxState.RUNNING:
            await asyncio.sleep(0.02)
    return started.instance


async def test_a_death_before_the_log_has_the_life_is_told_once_it_has(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "nats") as server, load_provider("local", tmp_path / "data") as provider:
        bus = await server.connect("spawner")
        journal, lifecycles = Journal(bus, service="spawner", node="local"), Lifecycles(bus)
        watch = Watch(journal=journal, lifecycles=lifecycles, providers={Isolation.LOCAL: provider})
        creating = SandboxCreating(spec=SPEC, isolation=Isolation.LOCAL, node="local")
        sequence = await journal.move("sb-1", creating, expected=0)
        instance = await killed(provider)
        early = OneDeath(ProviderEvent(sandbox="sb-1", instance=instance, kind="died", cause="killed"))
        tasks = [asyncio.create_task(each) for each in (lifecycles.follow(), watch.deaths(early), watch.limits(0.05))]  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(30):
                await early.heard.wait()
                await journal.move("sb-1", SandboxStarted(instance=instance), expected=sequence)
                while (state := await journal.lifecycle("sb-1")) is None or state.status != Status.STOPPED:
                    await asyncio.sleep(0.02)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await provider.remove("sb-1")
