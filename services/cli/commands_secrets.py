"""`secret`: the credentials of this node, which its sandboxes use and never see."""

import getpass
import os
import sys
from typing import Annotated

import typer

from contracts.errors import Invalid, Unavailable
from contracts.hostnames import fold
from infra.configuration import load
from infra.secrets.spellings import may_be_masked
from infra.secrets.store import Known, SecretStore
from infra.secrets.value import MAX_BYTES, check_value
from services.cli import show
from services.cli.words import say

HELP = """The credentials of this node. Sandboxes use them through the egress proxy and never see them.

Give one to a sandbox with `cloche create --secret NAME=HOST`; inside, http://127.0.0.1:3129/NAME stands for
https://HOST. A changed value counts at once.
"""

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=HELP, no_args_is_help=True)
    group.command("set")(put)
    group.command("ls")(ls)
    group.command("rm")(remove)
    app.add_typer(group, name="secret")


def put(
    name: NameArgument,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="The only host that it may ever be sent to. Repeatable; unless given, those it was bound to."
        ),
    ] = None,
    any_host: Annotated[
        bool, typer.Option("--any-host", help="Bind it no longer: it may go where a specification says.")
    ] = False,
) -> None:
    """Keep a credential. Its value is asked for, or read from standard input; never an argument, which others see."""
    store = _store()
    if host and any_host:
        raise Invalid("--host and --any-host are two different things")
    hosts = [_host(each) for each in host or []] if host or any_host else None
    value = _asked_for(name)
    try:
        store.put(name, value, hosts)
    except OSError as error:
        raise Unavailable(f"{store.directory}: {error.strerror}") from None
    print(name)
    if hosts is None and (kept := store.hosts(name)):
        say(f"  for {', '.join(kept)} only, as before; --any-host would lift that")
    if not may_be_masked(check_value(name, value)):
        say("  too short or too plain to be masked in the log, should it ever get there")


def ls(json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False) -> None:
    """Names, where each comes from, and when it was changed. Never a value."""
    known = _store().known()
    if not known:
        say("no secrets: `cloche secret set NAME` keeps one")
    name, origin = (max((len(text) for text in texts), default=0) for texts in _columns(known))
    for each in known:
        if json:
            show.json_line(each)
        else:
            hosts = ", ".join(each.hosts) or "any host"
            print(f"{each.name:<{name}}  {each.origin:<{origin}}  {_when(each):<19}  {each.trouble or hosts}")


def _columns(known: list[Known]) -> tuple[list[str], list[str]]:
    return [each.name for each in known], [each.origin for each in known]


def _when(known: Known) -> str:
    return "" if known.changed_at is None else known.changed_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def remove(name: NameArgument) -> None:
    """Forget a credential. Requests that need it are refused from now on."""
    _store().remove(name)
    print(name)


def _store() -> SecretStore:
    return SecretStore.of(load(os.environ))


def _host(text: str) -> str:
    folded = fold(text)
    if folded is None:
        raise Invalid(f"--host {text!r} is no host name")
    return folded


def _asked_for(name: str) -> bytes:
    if sys.stdin.isatty():
        return getpass.getpass(f"value of {name}: ", stream=sys.stderr).encode()
    return sys.stdin.buffer.read(MAX_BYTES + 2)
