"""Everything of one machine in one process: NATS, the keeper, and all services. What `cloche up` runs."""

import asyncio
import logging
from collections.abc import Callable

from contracts.errors import ClocheError, Invalid, Unavailable
from infra.bus.provision import provision
from infra.embedded.server import EmbeddedServer
from infra.embedded.store import prepare
from infra.exclusive import exclusive
from infra.keeper.launcher import end_keeper
from infra.own_process import settle
from infra.service import App, MakeApp
from infra.settings import Settings
from services.agent.app import make_app as make_agent
from services.cli.running import Running, leave, record_file
from services.egress.app import make_app as make_egress
from services.executor.app import make_app as make_executor
from services.file_watcher.app import make_app as make_file_watcher
from services.guardian.app import make_app as make_guardian
from services.health_monitor.app import make_app as make_health_monitor
from services.replay.app import make_app as make_replay
from services.spawner.app import make_app as make_spawner

logger = logging.getLogger(__name__)

SERVICES: tuple[MakeApp, ...] = (
    make_spawner,
    make_executor,
    make_file_watcher,
    make_health_monitor,
    make_replay,
    make_guardian,
    make_egress,
    make_agent,
)
RESTART_S = 0.5
START_ATTEMPTS = 4


async def serve(settings: Settings, ready: Callable[[Running], None]) -> None:
    """Run the node until cancelled. What runs in sandboxes goes on without it."""
    if settings.url is not None:
        raise Invalid("`cloche up` runs the embedded server; for the one at CLOCHE_URL start each service by itself")
    settle()
    prepare(settings.data)
    with exclusive(settings.data, "up", "see `cloche doctor`, end it with `cloche down`"):
        async with EmbeddedServer.of(settings) as server:
            async with await server.connect("admin") as admin:
                await provision(admin, settings.limits, [settings.node])
            try:
                async with asyncio.TaskGroup() as tasks:
                    started = [asyncio.Event() for _ in SERVICES]
                    for make, event in zip(SERVICES, started, strict=True):
                        tasks.create_task(_supervise(make(settings), event))
                    for event in started:
                        await event.wait()
                    ready(leave(settings.data, server.url))
            finally:
                record_file(settings.data).unlink(missing_ok=True)
                # Stays while commands run, and the next node finds it again.
                await end_keeper(settings.data)


async def _supervise(app: App, ready: asyncio.Event) -> None:
    """A service that fails is started again; nothing it did is lost by that.

    Raises `Unavailable` with its words when it fails again and again and was never ready.
    """
    failures = 0
    while True:
        try:
            await app.serve(ready.set)
        except* ClocheError as errors:
            words = str(errors.exceptions[0])
            logger.error("%s: %s; starting it again", app.name, words)  # noqa: TRY400
        except* Exception as errors:
            words = repr(errors.exceptions[0])
            logger.exception("%s failed; starting it again", app.name)
        failures += 1
        if failures == START_ATTEMPTS and not ready.is_set():
            raise Unavailable(f"{app.name} does not start: {words}")
        await asyncio.sleep(RESTART_S)
