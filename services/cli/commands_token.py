"""`token`: for those who use the gateway."""

import datetime
import getpass
import os
import re
import time
from typing import Annotated

import msgspec
import typer

from contracts.access import Principal, Role, Scope
from contracts.errors import Invalid
from infra.configuration import load
from infra.embedded.store import prepare
from infra.settings import Settings
from infra.tokens.keys import own_key, shared_secret
from infra.tokens.tokens import issue
from services.cli import show
from services.cli.values import duration_ms, sandbox_name

NEVER = "never"


def register(app: typer.Typer) -> None:
    app.command("token")(token)


def token(
    role: Annotated[Role, typer.Option(help="viewer looks, operator also acts, admin also reaches into the node.")],
    name: Annotated[str | None, typer.Option(help="Whose it is: it stands in the log as whoever asked.")] = None,
    sandbox: Annotated[list[str] | None, typer.Option(help="Only for this sandbox. Repeatable.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="Only for sandboxes with all of these. Repeatable.")
    ] = None,
    project: Annotated[
        list[str] | None,
        typer.Option(help="Only for sandboxes of this project; what it makes counts for it. Repeatable."),
    ] = None,
    expires: Annotated[str, typer.Option(help="How long it counts, as in 30m, 8h or 720h; or `never`.")] = "8h",
    shared: Annotated[bool, typer.Option(help="Signed with gateway.shared_secret, not with the node's key.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As a JSON object, with what it says.")] = False,
) -> None:
    """Print a token for the gateway of this node. It cannot be taken back before it expires: keep that short."""
    settings = load(os.environ)
    prepare(settings.data)
    now = int(time.time())
    named = tuple(sandbox_name(each) for each in sandbox or ())
    scope = Scope(projects=tuple(project or ()), sandboxes=named, labels=_labels(label or ()))
    ends = None if expires == NEVER else now + -(-duration_ms(expires) // 1000)
    principal = _checked(Principal(subject=name or own_name(), role=role, scope=scope, expires_at=ends))
    made = issue(_secret(settings) if shared else own_key(settings), principal, now=now)
    if json:
        show.json_line({"token": made, **told(principal)})
    else:
        print(made)


def told(principal: Principal) -> dict[str, object]:
    ends = principal.expires_at
    return {
        "subject": principal.subject,
        "role": principal.role,
        "scope": principal.scope,
        "expires_at": None if ends is None else datetime.datetime.fromtimestamp(ends, datetime.UTC),
    }


def own_name() -> str:
    """Of whoever runs this, as far as it can be a name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = ""
    return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9._@+-]", "", name)[:100] or "somebody"


def _checked(principal: Principal) -> Principal:
    try:
        return msgspec.convert(msgspec.to_builtins(principal), Principal)
    except msgspec.ValidationError as error:
        raise Invalid(f"no such token can be made: {error}") from None


def _labels(pairs: list[str] | tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Invalid(f"--label {pair!r} is not K=V, such as team=search")
        found[key] = value
    return found


def _secret(settings: Settings) -> bytes:
    secret = shared_secret(settings)
    if secret is None:
        raise Invalid("--shared needs gateway.shared_secret in cloche.toml: the file that holds it")
    return secret
