"""`up`, `node`, `down`, `doctor`: the node itself."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any, Protocol

import typer

from contracts.errors import ClocheError, Unavailable
from infra.configuration import load
from infra.settings import Settings
from services.cli import daemon
from services.cli.gateway_note import find_gateway
from services.cli.running import Running, find
from services.cli.session import passing
from services.cli.words import say


def register(app: typer.Typer) -> None:
    app.command("up")(up)
    app.command("node")(node)
    app.command("down")(down)
    app.command("doctor")(doctor_command)


def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="In the background; `down` ends it.")] = False,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Start NATS, the keeper and all services on this machine, and keep them running."""
    settings = load(os.environ)
    if detach:
        if (running := find(settings.data)) is None:
            running = asyncio.run(daemon.start(settings))
        passing(settings.data).unlink(missing_ok=True)
        print(up_words(settings, running), flush=True)
        _have_dashboard(settings)
        return
    from services.cli.node import serve

    _serve(settings, ready_fd, partial(serve, settings))


def node() -> None:
    """Run all services of this host against the servers at CLOCHE_URL, as CLOCHE_NODE, and keep them running.

    `cloche provision` comes first, once. Ctrl-C or SIGTERM ends it; what runs in sandboxes goes on, and the next
    `cloche node` on the same data directory finds it again.
    """
    from services.cli.node import join

    settings = load(os.environ)
    _serve(settings, None, partial(join, settings, tell=say))


def _have_dashboard(settings: Settings) -> None:
    """In a checkout the page is built at its first use. Nothing waits for it but the page."""
    from services.dashboard.build import FIRST_USE_S, ensure_built

    if settings.gateway.enabled:
        ensure_built(say, FIRST_USE_S)


def up_words(settings: Settings, running: Running) -> str:
    return "\n".join([f"up on {running.url}, data in {settings.data}", *_gateway_words(settings)])


def _gateway_words(settings: Settings) -> list[str]:
    note = find_gateway(settings.data)
    if note is None:
        return []
    how = "" if note.token else "; `cloche token` makes a token for it, `cloche open` goes in"
    taken = "" if note.instead_of is None else f" (port {note.instead_of} is taken)"
    return [f"dashboard: {note.entrance}{taken}{how}"]


class Serve(Protocol):
    def __call__(self, *, ready: Callable[[Running], None]) -> Coroutine[Any, Any, None]: ...


def _serve(settings: Settings, ready_fd: int | None, serve: Serve) -> None:
    import uvloop

    from infra.service import mask_log_of, start_logging, until_told

    start_logging()
    mask_log_of(settings)
    if ready_fd is not None:
        # Not for the processes that outlive us: whoever waits for our word reads until the last copy is closed.
        os.set_inheritable(ready_fd, False)

    def ready(running: Running) -> None:
        if ready_fd is not None:
            os.write(ready_fd, daemon.READY)
            os.close(ready_fd)
        else:
            say(f"{up_words(settings, running)}\nCtrl-C ends it; what runs in sandboxes goes on")
            threading.Thread(target=_have_dashboard, args=[settings], daemon=True).start()

    try:
        uvloop.run(until_told(serve(ready=ready)))
    except* ClocheError as errors:
        message = str(errors.exceptions[0])
        if ready_fd is not None:
            os.write(ready_fd, message.encode())
        print(f"cloche: {message}", file=sys.stderr)
        sys.exit(1)


def down() -> None:
    """End the node. Sandboxes and the commands in them go on, and are found again by the next `up`."""
    settings = load(os.environ)
    passing(settings.data).unlink(missing_ok=True)
    if not asyncio.run(daemon.stop(settings)):
        raise Unavailable(f"nothing was running on {settings.data}")
    say(f"down; sandboxes and their commands go on, and `cloche up` finds them again in {settings.data}")


def doctor_command(json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False) -> None:
    """Say what this machine has and lacks, and what to do about it."""
    from services.cli import doctor

    raise typer.Exit(asyncio.run(doctor.report(load(os.environ), json=json)))
