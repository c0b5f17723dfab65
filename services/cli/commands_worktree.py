"""`diff`, `commit`: what an agent changed in a git repository, and how it comes home."""

import asyncio
import sys
from typing import Annotated

import typer

from contracts.worktrees import WorktreeCommit
from infra.client import Diff
from services.cli.diff_colours import coloured
from services.cli.passthrough import STDOUT, write_all
from services.cli.session import connected
from services.cli.words import say

SandboxArgument = Annotated[str, typer.Argument(metavar="SANDBOX")]


def register(app: typer.Typer) -> None:
    app.command("diff")(diff)
    app.command("commit")(commit)


def diff(
    sandbox_id: SandboxArgument,
    stat: Annotated[bool, typer.Option("--stat", help="A summary by file.")] = False,
) -> None:
    """What differs in a sandbox's repository from the commit that it began from, untracked files too."""

    async def go() -> Diff:
        async with connected() as cloche:
            return await (await cloche.sandbox(sandbox_id)).diff(stat=stat)

    found = asyncio.run(go())
    write_all(STDOUT, coloured(found.data) if sys.stdout.isatty() else found.data)
    if found.truncated:
        say(f"cloche: truncated after {len(found.data)} bytes: "
            f"see the rest with `cloche exec {sandbox_id} -- git diff {found.base}`")  # fmt: skip


def commit(
    sandbox_id: SandboxArgument,
    message: Annotated[str, typer.Option("--message", "-m", help="The commit's message.")],
) -> None:
    """Commit everything in a sandbox's repository, and bring its branch into the repository that it came from."""

    async def go() -> WorktreeCommit:
        async with connected() as cloche:
            return await (await cloche.sandbox(sandbox_id)).commit(message)

    made = asyncio.run(go())
    if made.commit is None:
        say("nothing to commit: the workspace is as its branch has it")
    if made.brought is not None:
        print(f"{made.brought} {made.branch} {made.repository}")
