"""`fork`: a new sandbox that begins as another was."""

import asyncio
from typing import Annotated

import typer
from msgspec import Struct

from contracts.errors import Invalid
from contracts.events.agent import AgentStarted
from contracts.spec import ForkOf
from infra.client import Cloche
from infra.lineage import last_run
from infra.moments import sequence_at
from infra.words.escaping import printable
from services.cli import show
from services.cli.agent_beginning import going_on_from
from services.cli.commands_run import Isolation, Setting, wanted
from services.cli.moments import moment
from services.cli.session import connected
from services.cli.values import sandbox_name
from services.cli.words import progress, say


class Forked(Struct, frozen=True, kw_only=True):
    sandbox: str
    origin: str
    sequence: int
    resumable: str | None
    """The run of an agent that a new one can go on from."""
    run: str | None = None
    """The one that goes on from it."""
    notes: tuple[str, ...] = ()


def register(app: typer.Typer) -> None:
    app.command("fork")(fork)


def fork(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    at: Annotated[
        str, typer.Option("--at", metavar="SEQUENCE|TIME", help="The moment to begin from: see `cloche show`.")
    ],
    fork_id: Annotated[str | None, typer.Option("--id", help="Its id; a fresh one unless given.")] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Have the agent of that moment go on at once, with these words.")
    ] = None,
    isolation: Isolation = None,
    setting: Setting = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Make a sandbox that begins as another was at any moment, and print its id.

    Its files, its specification and its agent's conversation are those of that moment. The other sandbox may be
    running, stopped or removed, and is left as it is. What is to be different is said with --set.

    \b
    Example: cloche fork demo --at 412 --prompt 'Try it without the cache'
    """
    sandbox_name(sandbox_id)
    when, overrides = moment(at, "--at"), wanted(isolation, setting)

    async def go() -> tuple[Forked, AgentStarted | None]:
        async with connected(keep=True) as cloche:
            origin = ForkOf(sandbox=sandbox_id, sequence=await sequence_at(cloche.bus_of(sandbox_id), sandbox_id, when))
            last = await last_run(cloche.bus_of(sandbox_id), origin)
            if prompt is not None and last is None:
                raise Invalid(f"no agent had run in {sandbox_id!r} at sequence {origin.sequence}: leave --prompt out")
            return await _fork(cloche, origin, overrides, fork_id, last, prompt), last

    forked, last = asyncio.run(go())
    if json:
        show.json_line(forked)
    else:
        _tell(forked, last)


async def _fork(
    cloche: Cloche,
    origin: ForkOf,
    overrides: dict[str, object],
    fork_id: str | None,
    last: AgentStarted | None,
    prompt: str | None,
) -> Forked:
    made = await cloche.fork(
        origin.sandbox, at=origin.sequence, overrides=overrides, id=fork_id, on_progress=progress()
    )
    run = None
    if prompt is not None and last is not None:
        run = (await made.agent.begin(going_on_from(last, prompt))).id
    return Forked(
        sandbox=made.id,
        origin=origin.sandbox,
        sequence=origin.sequence,
        resumable=None if last is None else last.run,
        run=run,
        notes=made.state.notes,
    )


def _tell(forked: Forked, last: AgentStarted | None) -> None:
    print(forked.sandbox)
    say(f"  a fork of {forked.origin} at sequence {forked.sequence}")
    for note in forked.notes:
        say(f"  {printable(note)}")
    if forked.run is not None:
        say(f"  run {forked.run} goes on from {forked.resumable}: cloche agent follow {forked.sandbox}")
    elif last is not None:
        say("  its agent goes on with:")
        how = f"--runtime {printable(last.runtime)} --resume {last.run} --prompt '…'"
        say(f"    cloche agent start {forked.sandbox} {how}")
