"""`nodes`, `drain`: the hosts that have sandboxes."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.commands.node import DrainNode, LoseNode
from contracts.errors import Invalid
from contracts.events.node import NodeDrained, NodeDraining, NodeKept, NodeResumed
from contracts.events.sandbox import SandboxRecovering
from contracts.nodes import Standing
from infra.bus.connection import Bus
from infra.client.nodes import NodeHealth, NodeNews, NodeView
from infra.client.nodes import drain as order_drain
from infra.client.nodes import lose as order_lose
from infra.client.nodes import nodes as find_nodes
from infra.nodes import NodeLog
from infra.words.escaping import printable
from services.cli import show
from services.cli.measures import counted
from services.cli.partitions import of_partition, title
from services.cli.session import connected
from services.cli.values import duration_ms
from services.cli.words import say

HELP = "The hosts that have sandboxes: their load, their health, and the order to take one for gone."
STYLES = {
    NodeHealth.ALIVE: "green",
    NodeHealth.SILENT: "yellow",
    NodeHealth.DRAINING: "yellow",
    NodeHealth.DRAINED: "dim",
    NodeHealth.LOST: "bold red",
}
AWAY = (NodeHealth.SILENT, NodeHealth.LOST)
WIDE = 1000
NOTHING = "-"

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Node = Annotated[str, typer.Argument(metavar="NODE")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=HELP, invoke_without_command=True, suggest_commands=False)
    group.callback()(nodes)
    group.command("lost")(lost)
    app.add_typer(group, name="nodes")
    app.command("drain")(drain)


def nodes(context: typer.Context, json: Json = False) -> None:
    """The hosts that have sandboxes, with their load and health."""
    if context.invoked_subcommand is not None:
        return

    async def go() -> dict[int, list[NodeView]]:
        async with connected() as cloche:
            return {number: await find_nodes(part.bus) for number, part in cloche.parts.items()}

    everywhere = asyncio.run(go())
    for number, found in everywhere.items():
        if json:
            for each in found:
                show.json_line(of_partition(each, number, len(everywhere)))
        else:
            title(number, len(everywhere))
            _table(found)


def _table(found: Sequence[NodeView]) -> None:
    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("NODE", "HEALTH", "SANDBOXES", "MEMORY", "CPUS", "LOAD", "TIERS", "LABELS", "VERSION"):
        drawn.add_column(name, no_wrap=True)
    for each in found:
        drawn.add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in _cells(each)))
    Console(highlight=False, width=WIDE).print(drawn)
    for each in found:
        for sandbox, reason in each.kept.items():
            say(f"{each.node}: {printable(sandbox)} cannot leave: {printable(reason)}")


def _cells(view: NodeView) -> list[str | Text]:
    health = Text(_health(view), style=STYLES[view.health])
    vitals = view.vitals
    if vitals is None:
        return [view.node, health, *[NOTHING] * 7]
    return [
        view.node,
        health,
        f"{vitals.sandboxes}/{vitals.max_sandboxes}",
        _of(f"{vitals.memory_mb}", vitals.max_memory_mb, vitals.machine_memory_mb, " MB"),
        _of(f"{vitals.cpus:g}", vitals.max_cpus, vitals.machine_cpus, ""),
        f"{vitals.load_average:g}",
        ",".join(vitals.tiers),
        ",".join(f"{key}={value}" for key, value in sorted(vitals.labels.items())) or NOTHING,
        vitals.version,
    ]


def _of(promised: str, most: float | None, machine: float, unit: str) -> str:
    """What is promised, of what may be; where that is not counted, what the machine has, in brackets."""
    return f"{promised}/{most:g}{unit}" if most is not None else f"{promised} ({machine:g}{unit})"


def _health(view: NodeView) -> str:
    if view.health is NodeHealth.SILENT:
        return "silent" if view.silent_s is None else f"silent for {view.silent_s:.0f} s"
    return view.health


def lost(
    node: Node,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "asked",
    force: Annotated[
        bool, typer.Option("--force", help="It was alive a moment ago: be content with one missed sign of life.")
    ] = False,
) -> None:
    """Take a node for gone: its sandboxes are recovered elsewhere, and what it says of them later does not count.

    Refused while it shows signs of life, also with `--force`: `cloche drain` moves what a living node has.
    """

    async def go() -> None:
        async with connected() as cloche:
            for part in cloche.parts.values():
                if all(each.health in AWAY for each in await find_nodes(part.bus)):
                    say("no node shows signs of life: the order waits for one that could have what is to be recovered")
                await order_lose(part.bus, LoseNode(node=node, reason=reason, force=force))

    asyncio.run(go())
    say(f"node {node} is taken for gone; what it had is being recovered elsewhere: see `cloche ps`")


def drain(
    node: Node,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "asked",
    grace: Annotated[
        str, typer.Option(help="What runs may go on for so long, as in 90s or 2h, before its sandbox is moved.")
    ] = "0s",
    cancel: Annotated[bool, typer.Option("--cancel", help="Let it take sandboxes again.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Until nothing lives on it, telling what leaves.")] = False,
) -> None:
    """Have a node take no more sandboxes, and move those that it has elsewhere, with their files.

    What runs in a sandbox ends as lost when it is moved; `--grace` waits for it first. A sandbox that no other node can
    have stays, with the reason, and is tried again.
    """
    order = DrainNode(reason=reason, grace_ms=0 if grace == "0s" else duration_ms(grace), cancel=cancel)

    async def go() -> None:
        async with connected() as cloche:
            # It leaves all partitions at the same time.
            drained = (_drain(part.bus, node, order, wait=wait) for part in cloche.parts.values())
            await asyncio.gather(*drained)

    asyncio.run(go())


async def _drain(bus: Bus, node: str, order: DrainNode, *, wait: bool) -> None:
    if await _is_so(bus, node, cancel=order.cancel, wait=wait):
        return
    if {each.node: each.health for each in await find_nodes(bus)}[node] is NodeHealth.SILENT:
        say(f"{node} is silent, and obeys when it is back; if it is gone for good: `cloche nodes lost {node}`")
    async for news in order_drain(bus, node, order):
        _tell(news)
        if _is_over(news, cancel=order.cancel, wait=wait):
            return


async def _is_so(bus: Bus, node: str, *, cancel: bool, wait: bool) -> bool:
    """Nothing would be told, since there is nothing to do. Raises `Invalid` where there is no such node."""
    if node not in {each.node for each in await find_nodes(bus)}:
        raise Invalid(f"there is no node {node!r}: see `cloche nodes`")
    record = (await NodeLog(bus).read()).get(node)
    standing = Standing.UNKNOWN if record is None else record.standing
    if cancel and standing.takes_sandboxes:
        say(f"{node} takes sandboxes")
        return True
    if not cancel and (standing is Standing.DRAINED or (standing is Standing.DRAINING and not wait)):
        say(f"{node} is {standing}")
        return True
    return False


def _is_over(news: NodeNews, *, cancel: bool, wait: bool) -> bool:
    standing = news.record.standing
    if cancel:
        return standing.takes_sandboxes
    return standing is Standing.DRAINED or (standing is Standing.DRAINING and not wait) or standing.takes_sandboxes


def _tell(news: NodeNews) -> None:
    match news.fact:
        case NodeDraining(node=node):
            say(f"{node} takes no more sandboxes, and those that it has leave")
        case SandboxRecovering(node=node) if news.sandbox is not None:
            say(f"{printable(news.sandbox)} leaves for {node}")
        case NodeKept(sandbox=sandbox, reason=reason):
            say(f"{printable(sandbox)} stays for now: {printable(reason)}")
        case NodeDrained(node=node, moved=moved, stopped=stopped):
            left = f"; {counted(len(stopped), 'stopped sandbox', 'stopped sandboxes')} stay" if stopped else ""
            say(f"{node} is drained, {counted(moved, 'sandbox', 'sandboxes')} moved{left}")
        case NodeResumed(node=node):
            say(f"{node} takes sandboxes again")
