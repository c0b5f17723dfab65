"""What the `agent` commands have in common: their words, a connection, what is printed of what was said."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from infra.client import Cloche
from infra.client.agent import Said
from infra.client.agent_run import AgentRun
from services.cli import show
from services.cli.session import connected
from services.cli.words import say as tell

T = TypeVar("T")
SandboxId = Annotated[str, typer.Argument(metavar="SANDBOX")]
Text = Annotated[list[str], typer.Argument(metavar="TEXT…")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def ask(go: Callable[[Cloche], Awaitable[T]]) -> T:
    async def connect() -> T:
        async with connected() as cloche:
            return await go(cloche)

    return asyncio.run(connect())


def print_said(said: Said | AgentRun, done: str, *, json: bool) -> None:
    if isinstance(said, AgentRun):
        print_begun(said, json=json)
    elif json:
        show.json_line(said._asdict())
    else:
        print(f"{done} {said.run} [{said.sequence}]")


def print_begun(run: AgentRun, *, json: bool) -> None:
    if json:
        show.json_line({"run": run.id, "sequence": run.first_sequence})
        return
    print(run.id)
    tell(f"`cloche agent follow {run.sandbox}` shows it, `cloche agent chat {run.sandbox}` talks to it")
