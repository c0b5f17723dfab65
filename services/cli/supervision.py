"""All services of one host in one process, each started again when it fails."""

import asyncio
import logging
from collections.abc import Callable

from contracts.errors import ClocheError, NodeNameTaken, Unavailable
from infra.access import open_as
from infra.duty import OnDuty
from infra.embedded.store import prepare
from infra.keeper.launcher import end_keeper
from infra.node_name import NodeName
from infra.observing import about, catalogue
from infra.observing.endpoint import endpoint
from infra.observing.presence import presence
from infra.observing.tracing import exporting
from infra.realms import parts
from infra.service import App, MakeApp
from infra.settings import Settings
from services.agent.app import make_app as make_agent
from services.cli.gateway_process import gateway_of
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
ONCE = (make_replay, make_guardian)
"""Two read models would be written in turns, and two guardians do everything twice."""
RESTART_S = 0.5
START_ATTEMPTS = 4


async def supervise_all(settings: Settings, url: str, ready: Callable[[Running], None]) -> None:
    """Run every service, and the gateway where the settings have one, against the servers at `url` until cancelled.

    Each partition has services of its own. What runs in sandboxes goes on without them. Raises `Unavailable` when a
    service does not start.
    """
    each = parts(settings)
    for part in each:
        prepare(part.data)
    try:
        observed = (endpoint(settings.metrics), exporting(settings))
        async with observed[0], observed[1], gateway_of(settings), asyncio.TaskGroup() as tasks:
            apps = [_one_or_each(make, part) for part in each for make in SERVICES]
            started = [asyncio.Event() for _ in apps]
            for app, event in zip(apps, started, strict=True):
                tasks.create_task(_supervise(app, event))
            for part in each:
                tasks.create_task(_keep_name(part))
            for event in started:
                await event.wait()
            ready(leave(settings.data, url))
    finally:
        record_file(settings.data).unlink(missing_ok=True)
        for part in each:
            # Stays while commands run, and the next node finds it again.
            await end_keeper(part.data)


async def _keep_name(settings: Settings) -> None:
    """Ends the node, services and all, with `NodeNameTaken` when its name is another host's, and for nothing else."""
    while settings.url is not None:
        try:
            async with open_as(settings, "spawner") as bus:
                name = NodeName(bus, settings)
                await name.held()
                await name.keep()
        except NodeNameTaken:
            raise
        except ClocheError as error:
            logger.warning("the name is looked at again: %s", error.message)
            await asyncio.sleep(RESTART_S)


def _one_or_each(make: MakeApp, settings: Settings) -> App:
    """Beside other nodes, those of which there is one are run by one node at a time."""
    app = make(settings)
    return OnDuty(app, settings) if settings.url is not None and make in ONCE else app


async def _supervise(app: App, ready: asyncio.Event) -> None:
    """A service that fails is started again; nothing it did is lost by that.

    Raises `Unavailable` with its words when it fails again and again and was never ready.
    """
    failures = 0
    about.service.set(app.name)
    place = presence().expect(app.name)

    def is_ready() -> None:
        place.is_ready = True
        ready.set()

    while True:
        try:
            await app.serve(is_ready)
        except* ClocheError as errors:
            words = str(errors.exceptions[0])
            logger.error("%s: %s; starting it again", app.name, words)  # noqa: TRY400
        except* Exception as errors:
            words = repr(errors.exceptions[0])
            logger.exception("%s failed; starting it again", app.name)
        failures += 1
        place.is_ready = False
        catalogue.restarts.add(app.name)
        if failures == START_ATTEMPTS and not ready.is_set():
            raise Unavailable(f"{app.name} does not start: {words}")
        await asyncio.sleep(RESTART_S)
