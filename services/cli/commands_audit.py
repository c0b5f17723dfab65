"""`audit`: who signs the log, how far it is proven, and what is wrong with it."""

import asyncio
from typing import Annotated

import typer

from contracts.audits import AuditKey, AuditState, HeirKey
from contracts.events.audit import AuditDamaged
from contracts.keyring import short
from infra.client.auditing import audit_state, rotate_key
from infra.words.escaping import printable
from services.cli import show
from services.cli.measures import counted
from services.cli.partitions import of_partition, title
from services.cli.session import connected
from services.cli.words import say

HELP = """Who signs the log, how far it is proven, and whether anything is wrong with it.

Every event is under a signed checkpoint soon after it was written; a copy of each checkpoint is kept outside the log's
own store. `cloche verify` proves the whole of it; docs/audit.md says what that means.
"""
DETAIL = 300
SHOWN = 20

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=HELP, invoke_without_command=True, suggest_commands=False)
    group.callback()(audit)
    group.command("keys")(keys)
    group.command("rotate")(rotate)
    app.add_typer(group, name="audit")


def audit(context: typer.Context, json: Json = False) -> None:
    """Who signs the log, how far it is proven, and whether anything is wrong with it. Exit code 1 if so."""
    if context.invoked_subcommand is not None:
        return
    states = asyncio.run(_states())
    for number, state in states.items():
        if json:
            show.json_line(of_partition(state, number, len(states)))
        else:
            title(number, len(states))
            _print(state)
    raise typer.Exit(1 if any(state.damages for state in states.values()) else 0)


def keys(json: Json = False) -> None:
    """The public keys that signed this log, oldest first: for whoever is to verify an export with `--key`."""
    states = asyncio.run(_states())
    for number, state in states.items():
        for each in state.keys:
            if json:
                show.json_line(of_partition(each, number, len(states)))
            else:
                print(each.key)
                where = f", of partition {number}" if len(states) > 1 else ""
                say(f"  {_since(each)}{', signs now' if each.current else ''}{where}")
                for heir in each.heirs:
                    say(f"  would be followed by {_heir(heir)}")


def rotate(reason: Annotated[str, typer.Option(help="Why, for the log.")] = "asked", json: Json = False) -> None:
    """Sign with a new key from now on. The old one signs the change, and is then deleted; what it signed still counts.

    Hand the new public key to whoever verifies your exports, though the old one leads to it.
    """

    async def go() -> None:
        async with connected() as cloche:
            parts = cloche.parts
            for number, part in parts.items():
                rotated = await rotate_key(part.bus, reason)
                if json:
                    show.json_line(of_partition(rotated, number, len(parts)))
                else:
                    print(rotated.next)

    asyncio.run(go())


async def _states() -> dict[int, AuditState]:
    async with connected() as cloche:
        return {number: await audit_state(part.bus) for number, part in cloche.parts.items()}


def _print(state: AuditState) -> None:
    print(f"log         {state.log or 'has no name yet'}")
    current = next((each for each in state.keys if each.current), None)
    if not state.enabled:
        print("signed by   nobody: audit.enabled is false in cloche.toml")
    elif current is None:
        print("signed by   nobody yet: the first checkpoint is still to come")
    else:
        before = f", before that by {counted(len(state.keys) - 1, 'other')}" if len(state.keys) > 1 else ""
        print(f"signed by   {current.key} {_since(current)}{before}")
        if current.heirs:
            print(f"heirs       {', '.join(map(_heir, current.heirs[:SHOWN]))}")
    at = (
        ""
        if state.checkpoint_at is None
        else f", by a checkpoint of {state.checkpoint_at.astimezone():%Y-%m-%d %H:%M:%S}"
    )
    print(f"proven      up to sequence {state.checkpoint}{at}")
    print(f"noted       {_noted(state)}")
    print(f"checked     {_checked(state)}")
    for trouble in state.troubles:
        print(f"trouble     {printable(trouble, DETAIL)}")
    if not state.damages:
        print("damage      none found")
    for damage in state.damages[:SHOWN]:
        print(f"DAMAGE      {damage_words(damage)}")
    if len(state.damages) > SHOWN:
        print(f"            and {len(state.damages) - SHOWN} more: --json shows all")


def _since(key: AuditKey) -> str:
    return f"since sequence {key.since_sequence}" if key.since_sequence else "from the first checkpoint on"


def _heir(heir: HeirKey) -> str:
    return f"node {printable(heir.node, DETAIL)}, {short(heir.key)}"


def _noted(state: AuditState) -> str:
    if not state.seen:
        return "nothing yet: the service has just begun to look"
    return f"up to sequence {state.seen}, outside the store"


def _checked(state: AuditState) -> str:
    if not state.checked:
        return "not yet since the service started; `cloche verify` does it now"
    return f"up to sequence {state.checked} since the service started"


def damage_words(damage: AuditDamaged) -> str:
    first, last = damage.first_sequence, damage.last_sequence
    where = f"sequence {first}" if first == last else f"sequences {first} to {last}"
    return f"{where}: {printable(damage.fault, DETAIL)}: {printable(damage.detail, DETAIL)}"
