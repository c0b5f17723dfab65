"""Everything of one machine in one process: NATS, the keeper, and all services. What `cloche up` runs."""

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from contracts.errors import ClocheError, Unavailable
from infra.bus.provision import provision
from infra.embedded.server import EmbeddedServer
from infra.embedded.store import prepare
from infra.keeper.launcher import end_keeper
from infra.service import App, MakeApp
from infra.settings import Settings
from services.cli.running import Running, leave, record_file
from services.executor.app import make_app as make_executor
from services.replay.app import make_app as make_replay
from services.spawner.app import make_app as make_spawner

logger = logging.getLogger(__name__)

SERVICES: tuple[MakeApp, ...] = (make_spawner, make_executor, make_replay)
RESTART_S = 0.5


@contextmanager
def _only_one(data: Path) -> Iterator[None]:
    """Raises `Unavailable` when another process holds the node, `Invalid` for a directory that cannot be used."""
    prepare(data)
    descriptor = os.open(data / "run" / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Unavailable(
            f"another `cloche up` is running on {data}: see `cloche doctor`, end it with `cloche down`"
        ) from None
    finally:
        os.close(descriptor)


async def serve(settings: Settings, ready: Callable[[Running], None]) -> None:
    """Run the node until cancelled. What runs in sandboxes goes on without it."""
    with _only_one(settings.data):
        async with EmbeddedServer.of(settings) as server:
            async with await server.connect("admin") as admin:
                await provision(admin, settings.limits, [settings.node])
            try:
                async with asyncio.TaskGroup() as tasks:
                    started = [asyncio.Event() for _ in SERVICES]
                    for make, event in zip(SERVICES, started, strict=True):
                        tasks.create_task(_supervise(make(settings), event.set))
                    for event in started:
                        await event.wait()
                    ready(leave(settings.data, server.url))
            finally:
                record_file(settings.data).unlink(missing_ok=True)
                # Stays while commands run, and the next node finds it again.
                await end_keeper(settings.data)


async def _supervise(app: App, ready: Callable[[], None]) -> None:
    """A service that fails is started again; nothing it did is lost by that."""
    while True:
        try:
            await app.serve(ready)
        except* ClocheError as errors:
            logger.error("%s: %s; starting it again", app.name, errors.exceptions[0])  # noqa: TRY400
        except* Exception:
            logger.exception("%s failed; starting it again", app.name)
        await asyncio.sleep(RESTART_S)
