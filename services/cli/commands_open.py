"""`open`: the dashboard, in a browser."""

import os
import sys
import time
from typing import Annotated

import typer

from contracts.errors import Unavailable
from infra.configuration import load
from infra.settings import Settings
from services.cli.gateway_note import find_gateway, with_token
from services.cli.running import find
from services.cli.words import say
from services.dashboard.build import FIRST_USE_S, ensure_built

SESSION_S = 12 * 3600


def register(app: typer.Typer) -> None:
    app.command("open")(open_)


def open_(
    only_print: Annotated[bool, typer.Option("--print", help="Print the address and open nothing.")] = False,
) -> None:
    """Open the dashboard. The address that is printed lets whoever has it in: keep it to yourself."""
    entrance = _entrance(load(os.environ))
    ensure_built(say, FIRST_USE_S)
    print(entrance, flush=True)
    if not only_print and not _opened(entrance):
        say("no browser was found here: open the address in yours")


def _entrance(settings: Settings) -> str:
    """Raises `Unavailable` with what to do."""
    if settings.url is not None:
        raise Unavailable("the gateway beside CLOCHE_URL is run elsewhere: open its address, with a `cloche token`")
    if find(settings.data) is None:
        raise Unavailable(f"nothing is up on {settings.data}: `cloche up --detach` starts it")
    note = find_gateway(settings.data)
    if note is None:
        raise Unavailable("the node that is up has no gateway: gateway.enabled is false in cloche.toml")
    return note.entrance if note.token is not None else with_token(note.address, _own_token(settings))


def _own_token(settings: Settings) -> str:
    """Whoever may read the data directory may do anything anyway."""
    from contracts.access import Principal, Role
    from infra.tokens.keys import own_key
    from infra.tokens.tokens import issue
    from services.cli.commands_token import own_name

    now = int(time.time())
    somebody = Principal(subject=own_name(), role=Role.ADMIN, expires_at=now + SESSION_S)
    return issue(own_key(settings), somebody, now=now)


def _opened(address: str) -> bool:
    """Not where only a browser in this very terminal could be found."""
    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    import webbrowser

    return webbrowser.open(address)
