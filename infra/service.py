"""What every service is, and how one runs alone as a process."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import uvloop

from contracts.errors import ClocheError
from infra.own_process import settle
from infra.secrets.masked_log import mask_log
from infra.secrets.redaction import Redactor
from infra.secrets.store import SecretStore
from infra.settings import Settings, load

logger = logging.getLogger(__name__)

Ready = Callable[[], None]
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class App(Protocol):
    """A service, wired and not yet started."""

    name: str

    async def serve(self, ready: Ready) -> None:
        """Run until cancelled; call `ready` once orders are being taken."""
        ...


MakeApp = Callable[[Settings], App]


def start_logging() -> None:
    logging.basicConfig(stream=sys.stderr, level=os.environ.get("CLOCHE_LOG_LEVEL", "WARNING"), format=LOG_FORMAT)


def mask_log_of(settings: Settings) -> None:
    mask_log(Redactor(SecretStore.of(settings)), LOG_FORMAT)


def main(make_app: MakeApp) -> None:
    """`python -m services.<name>`: serves until SIGTERM or SIGINT; exit code 1 with one line when it cannot."""
    start_logging()
    settle()
    try:
        settings = load(os.environ)
        mask_log_of(settings)
        app = make_app(settings)
        uvloop.run(until_told(app.serve(lambda: print(f"{app.name}: ready", file=sys.stderr, flush=True))))  # noqa: T201
    except* ClocheError as errors:
        sys.exit(f"cloche: {errors.exceptions[0]}")


async def until_told(work: Coroutine[Any, Any, None]) -> None:
    """Runs `work` until it ends or the process is told to."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
