"""`up`, `down`, `doctor`: the node itself."""

import asyncio
import os
import sys
from typing import Annotated

import typer

from contracts.errors import ClocheError, Unavailable
from infra.access import open_as
from infra.bus.provision import apply, plan, wanted
from infra.embedded.users import ADMIN
from infra.settings import Settings, load
from services.cli import daemon
from services.cli.running import Running, find
from services.cli.session import passing
from services.cli.words import say


def register(app: typer.Typer) -> None:
    app.command("up")(up)
    app.command("down")(down)
    app.command("doctor")(doctor_command)
    app.command("provision")(provision)


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
        print(f"up on {running.url}, data in {settings.data}")
        return
    _serve(settings, ready_fd)


def _serve(settings: Settings, ready_fd: int | None) -> None:
    import uvloop

    from infra.service import mask_log_of, start_logging, until_told
    from services.cli.node import serve

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
            say(f"up on {running.url}, data in {settings.data}\nCtrl-C ends it; what runs in sandboxes goes on")

    try:
        uvloop.run(until_told(serve(settings, ready)))
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


def provision(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> None:
    """Make the streams and consumers of a running NATS agree with this version. `up` does it by itself."""

    async def go() -> None:
        settings = load(os.environ)
        async with open_as(settings, ADMIN) as admin:
            changes = await plan(admin, wanted(settings.limits, [settings.node]))
            if not changes:
                say("nothing to change")
            elif dry_run:
                for change in changes:
                    print(f"would {change.what}")
            else:
                await apply(admin, changes, tell=print)

    asyncio.run(go())
