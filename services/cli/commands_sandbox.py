"""`create`, `ps`, `stop`, `start`, `pause`, `resume`, `snapshot`, `recover`, `rm`, `kill`: sandboxes, and what runs."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from contracts.errors import Invalid
from contracts.queries import ListSandboxes
from contracts.state import SandboxState, Status
from infra.client import Recovered, Sandbox, Snapshot
from infra.configuration import load
from services.cli import show
from services.cli.allow_option import AllowOption
from services.cli.board import Board
from services.cli.commands_run import Isolation, Setting, wanted
from services.cli.secret_option import SecretOption
from services.cli.session import connected
from services.cli.use import Seen, as_json
from services.cli.values import duration_ms, signal_number
from services.cli.words import progress, say

Ids = Annotated[list[str], typer.Argument(metavar="SANDBOX…")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def register(app: typer.Typer) -> None:
    app.command("create")(create)
    app.command("ps")(ps)
    app.command("stop")(stop)
    app.command("start")(start)
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("snapshot")(snapshot)
    app.command("recover")(recover)
    app.command("rm")(remove)
    app.command("kill")(kill)


def create(
    sandbox_id: Annotated[str | None, typer.Option("--id", help="Its id; a fresh one unless given.")] = None,
    isolation: Isolation = None,
    setting: Setting = None,
    secret: SecretOption = None,
    allow: AllowOption = None,
    json: Json = False,
) -> None:
    """Make a sandbox, wait until it runs, and print its id."""
    spec = wanted(isolation, setting, secret, allow)

    async def go() -> SandboxState:
        async with connected(keep=True) as cloche:
            return (await cloche.create(spec, id=sandbox_id, on_progress=progress())).state

    state = asyncio.run(go())
    if json:
        show.json_line(state)
    else:
        print(state.sandbox)
        for limit, by in state.enforcement.items():
            say(f"  {limit:<8} {by}")
        for note in state.notes:
            say(f"  {note}")


def ps(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Removed sandboxes too.")] = False,
    status: Annotated[Status | None, typer.Option(help="Only those in this state.")] = None,
    task: Annotated[str | None, typer.Option(help="Only those of this task.")] = None,
    json: Json = False,
) -> None:
    """List sandboxes, with their health and what they use.

    A narrow terminal shows fewer columns; --json has everything. SEEN is there when nobody has looked for too long,
    ASKS when something waits for an answer (`cloche net`,
    `cloche agent pending`), AGENT when one is at work.
    """
    query = ListSandboxes(include_removed=everything, status=status, task_id=task)

    async def go() -> list[Seen]:
        async with connected() as cloche:
            board = Board(cloche, every_s=load(os.environ).intervals.health_s)
            await board.load(query)
            return board.rows()

    rows = asyncio.run(go())
    if json:
        for row in rows:
            show.json_line(as_json(row))
    else:
        show.sandbox_table(rows)


def stop(
    sandboxes: Ids,
    grace: Annotated[str, typer.Option(help="How long processes may take to end by themselves.")] = "10s",
) -> None:
    """Stop sandboxes: every process inside ends, the workspace stays."""
    _each(sandboxes, lambda sandbox: sandbox.stop(grace_ms=duration_ms(grace)))


def start(sandboxes: Ids) -> None:
    """Start stopped sandboxes again, with their workspaces."""
    _each(sandboxes, lambda sandbox: sandbox.boot())


def pause(sandboxes: Ids) -> None:
    """Freeze every process of sandboxes."""
    _each(sandboxes, lambda sandbox: sandbox.pause())


def resume(sandboxes: Ids) -> None:
    """Let paused sandboxes go on."""
    _each(sandboxes, lambda sandbox: sandbox.resume())


def snapshot(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    label: Annotated[str | None, typer.Option(help="A name for it, for people.")] = None,
    json: Json = False,
) -> None:
    """Have the log name the whole workspace as it is now, and print the sequence to come back to."""

    async def go() -> Snapshot:
        async with connected() as cloche:
            return await (await cloche.sandbox(sandbox_id)).snapshot(label=label)

    taken = asyncio.run(go())
    if json:
        show.json_line(taken._asdict())
    else:
        print(taken.sequence)
        say(f"  {taken.files} entries, {taken.size} bytes, manifest {taken.manifest}")


def recover(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    at: Annotated[int | None, typer.Option(metavar="SEQUENCE", help="With its workspace as it was then.")] = None,
    node: Annotated[str | None, typer.Option(help="The node to have it from now on; its own unless given.")] = None,
    json: Json = False,
) -> None:
    """Make a sandbox again under the same id: one that died, was stopped, has failed, or whose node is gone."""

    async def go() -> Recovered:
        async with connected() as cloche:
            return await (await cloche.sandbox(sandbox_id)).recover(at=at, node=node)

    recovered = asyncio.run(go())
    if json:
        show.json_line(recovered._asdict())
        return
    workspace = "as it was" if recovered.sequence is None else f"of sequence {recovered.sequence}"
    print(f"{sandbox_id} running")
    say(f"  on node {recovered.node}, workspace {workspace}")
    for note in recovered.notes:
        say(f"  {note}")


def remove(sandboxes: Ids) -> None:
    """Remove sandboxes and their workspaces. Their record in the log stays."""
    _each(sandboxes, lambda sandbox: sandbox.remove())


def _each(sandboxes: list[str], act: Callable[[Sandbox], Awaitable[None]]) -> None:
    async def go() -> None:
        async with connected() as cloche:
            for sandbox_id in sandboxes:
                sandbox = await cloche.sandbox(sandbox_id)
                await act(sandbox)
                print(f"{sandbox_id} {sandbox.state.status}")

    asyncio.run(go())


def kill(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    exec_id: Annotated[str | None, typer.Argument(metavar="[EXEC]", help="All running commands unless given.")] = None,
    signal: Annotated[str, typer.Option("--signal", "-s", help="TERM, KILL, INT or a number.")] = "TERM",
    grace: Annotated[str, typer.Option(help="SIGKILL follows after this long.")] = "10s",
) -> None:
    """End commands with their whole process tree; they are recorded as cancelled."""
    number, grace_ms = signal_number(signal), duration_ms(grace)

    async def go() -> None:
        async with connected() as cloche:
            sandbox = await cloche.sandbox(sandbox_id)
            running = await sandbox.running()
            if exec_id and exec_id not in running:
                raise Invalid(f"command {exec_id!r} is not running in sandbox {sandbox_id!r}")
            execs = [exec_id] if exec_id else running
            if not execs:
                raise Invalid(f"no command is running in sandbox {sandbox_id!r}")
            for each in execs:
                execution = sandbox.execution(each)
                await execution.cancel(signal=number, grace_ms=grace_ms, reason="cloche kill")
                print(f"{each} {(await execution.wait()).outcome}")

    asyncio.run(go())
