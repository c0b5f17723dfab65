"""Runs the commands and compares what is held before and after them."""

import asyncio
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from contracts.errors import SandboxExecFailed
from infra.client import Sandbox
from services.cli.bench.measuring import scratch
from services.cli.bench.rig import Rig, running_node
from services.cli.soak.holdings import Holdings, settled

AT_ONCE = 4
WARM_UP = 40
SLACK = 24
"""Slots, pooled sandboxes and idle connections come and go; what leaks with every command is soon more than that."""
COMMAND = "cat; echo hi; (sleep 0 &)"


async def soak(commands: int, image: str | None) -> int:
    """1 where something was left behind. Prints what is held before and after."""
    with scratch() as directory, Progress(console=Console(stderr=True), transient=True) as progress:
        async with running_node(Path(directory) / "node", progress, image) as rig:
            before, after = await _held(rig, commands)
    Console().print(_table(before, after, commands))
    leaks = after.beyond(before, SLACK)
    print(f"leaked: {', '.join(leaks)}" if leaks else "nothing of them was left")
    return 1 if leaks else 0


async def _held(rig: Rig, commands: int) -> tuple[Holdings, Holdings]:
    sandbox = await rig.cloche.create()
    await _run(rig, sandbox, WARM_UP, "warming up")
    before = await settled(rig, sandbox)
    await _run(rig, sandbox, commands, f"{commands} commands")
    after = await settled(rig, sandbox)
    await sandbox.remove()
    return before, after


async def _run(rig: Rig, sandbox: Sandbox, commands: int, what: str) -> None:
    for _ in rig.progress.track(range(0, commands, AT_ONCE), description=what):
        await asyncio.gather(*(_one(sandbox) for _ in range(AT_ONCE)))


async def _one(sandbox: Sandbox) -> None:
    done = await sandbox.run(COMMAND, input=b"in\n")
    if done.stdout != b"in\nhi\n" or done.exit_code != 0:
        raise SandboxExecFailed(f"{COMMAND!r} ended as {done.outcome}, and said {done.stdout!r}")


def _table(before: Holdings, after: Holdings, commands: int) -> Table:
    table = Table("", "before", f"after {commands} commands")
    for name in Holdings.__struct_fields__:
        table.add_row(name, str(getattr(before, name)), str(getattr(after, name)))
    return table
