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
from infra.configuration import load
from infra.observing import about
from infra.observing.endpoint import endpoint
from infra.observing.json_log import JsonFormatter
from infra.observing.presence import presence
from infra.observing.tracing import exporting
from infra.own_process import settle
from infra.realms import one_part
from infra.secrets.masked_log import MaskingFormatter, mask_log
from infra.secrets.redaction import Redactor
from infra.secrets.store import SecretStore
from infra.settings import LogFormat, Metrics, Settings

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
    """From now on as the settings say: which words, in which form, without known secrets."""
    redactor, chosen = Redactor(SecretStore.of(settings)), settings.logging
    if not os.environ.get("CLOCHE_LOG_LEVEL"):
        logging.getLogger().setLevel(chosen.level.upper())
    if chosen.format is LogFormat.JSON:
        mask_log(JsonFormatter(redactor, settings.node))
    else:
        mask_log(MaskingFormatter(redactor, LOG_FORMAT))


def main(make_app: MakeApp, *, is_for_all: bool = False) -> None:
    """`python -m services.<name>`: serves until SIGTERM or SIGINT; exit code 1 with one line when it cannot.

    `is_for_all`: one serves every partition of a divided log; any other service works in the one that it is told.
    """
    start_logging()
    settle()
    try:
        settings = load(os.environ) if is_for_all else one_part(load(os.environ))
        mask_log_of(settings)
        uvloop.run(until_told(_serve(make_app(settings), settings)))
    except* ClocheError as errors:
        sys.exit(f"cloche: {errors.exceptions[0]}")


async def _serve(app: App, settings: Settings) -> None:
    place = presence().expect(app.name)

    def ready() -> None:
        place.is_ready = True
        print(f"{app.name}: ready", file=sys.stderr, flush=True)  # noqa: T201

    about.service.set(app.name)
    # The gateway has an address already.
    elsewhere = getattr(app, "has_own_figures", False)
    async with endpoint(Metrics() if elsewhere else settings.metrics), exporting(settings):
        await app.serve(ready)


async def until_told(work: Coroutine[Any, Any, None]) -> None:
    """Runs `work` until it ends or the process is told to."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
