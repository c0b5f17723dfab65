"""`create`, `ps`, `stop`, `start`, `pause`, `resume`, `rm`, `kill`: sandboxes and what runs in them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from contracts.errors import Invalid
from contracts.queries import ListSandboxes
from contracts.state import SandboxState, Status
from infra.client import Sandbox
from services.cli import show
from services.cli.commands_run import Isolation, Setting, wanted
from services.cli.session import connected
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
    app.command("rm")(remove)
    app.command("kill")(kill)


def create(
    sandbox_id: Annotated[str | None, typer.Option("--id", help="Its id; a fresh one unless given.")] = None,
    isolation: Isolation = None,
    setting: Setting = None,
    json: Json = False,
) -> None:
    """Make a sandbox, wait until it runs, and print its id."""

    async def go() -> SandboxState:
        async with connected(keep=True) as cloche:
            return (await cloche.create(wanted(isolation, setting), id=sandbox_id, on_progress=progress())).state

    state = asyncio.run(go())
    if json:
        show.json_line(state)
    else:
        print(state.sandbox)
        for limit, by in state.enforcement.items():
            say(f"  {limit:<8} {by}")


def ps(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Removed sandboxes too.")] = False,
    status: Annotated[Status | None, typer.Option(help="Only those in this state.")] = None,
    task: Annotated[str | None, typer.Option(help="Only those of this task.")] = None,
    json: Json = False,
) -> None:
    """List sandboxes."""

    async def go() -> tuple[SandboxState, ...]:
        found: list[SandboxState] = []
        async with connected() as cloche:
            after: str | None = None
            while True:
                query = ListSandboxes(include_removed=everything, status=status, task_id=task, after=after, limit=500)
                page = await cloche.sandboxes(query)
                found += page.sandboxes
                if not page.more:
                    return tuple(found)
                after = page.sandboxes[-1].sandbox

    states = asyncio.run(go())
    if json:
        for state in states:
            show.json_line(state)
    else:
        show.sandbox_table(states)


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
