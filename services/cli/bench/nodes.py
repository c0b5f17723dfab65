"""One, two and four nodes on one machine, against one server: commands and events in a second, how long one takes."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from rich.progress import Progress

from contracts.streams import Limits
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client import Cloche, Sandbox
from infra.nats.servers import Servers, on_free_ports
from services.cli.bench.figure import Figure
from services.cli.bench.node_process import NodeProcess
from services.cli.bench.percentile import median, percentile
from services.cli.bench.sizes import Sizes

AT_ONCE = 8
LOCAL = {"CLOCHE_ISOLATION": "local", "CLOCHE_POOL": "0"}
CONFIG = "max_sandboxes = {most}\ngateway = {{ enabled = false }}\n"


class Group(NamedTuple):
    bus: Bus
    sandboxes: list[Sandbox]


class Speed(Struct, frozen=True, kw_only=True):
    nodes: int
    commands_per_s: float
    events_per_s: float
    milliseconds: list[float]


async def nodes(place: Path, sizes: Sizes, progress: Progress) -> list[Figure]:
    """Each number of nodes on a server and on data directories of its own, side by side, in turns."""
    async with AsyncExitStack() as running:
        # As many in all, whatever the number of nodes is.
        most = max(sizes.node_counts)
        groups = [
            await running.enter_async_context(_group(place / f"nodes{count}", count, most))
            for count in sizes.node_counts
        ]
        rounds: list[list[Speed]] = [[] for _ in groups]
        for _ in progress.track(range(sizes.rounds), description="nodes"):
            for number, (count, group) in enumerate(zip(sizes.node_counts, groups, strict=True)):
                rounds[number].append(await _measured(count, group, sizes.node_commands))
    return [figure for group in rounds for figure in _figures(group, rounds[0])]


@asynccontextmanager
async def _group(place: Path, count: int, sandboxes: int) -> AsyncIterator[Group]:
    names = [f"node{number}" for number in range(count)]
    async with AsyncExitStack() as running:
        servers = await running.enter_async_context(Servers(place / "servers", on_free_ports(1), nodes=names))
        await servers.provision(Limits())
        # So that each has its share.
        config = CONFIG.format(most=-(-sandboxes // count))
        for name in names:
            environment = {**servers.environment(), **LOCAL, "CLOCHE_NODE": name}
            node = await asyncio.to_thread(NodeProcess, place / name, environment, config)
            await running.enter_async_context(node)
        cloche = await running.enter_async_context(Cloche.connect(node.settings))
        yield Group(cloche.bus, [await cloche.create() for _ in range(sandboxes)])


async def _measured(count: int, group: Group, commands: int) -> Speed:
    bus, sandboxes = group
    places = asyncio.Semaphore(AT_ONCE)
    milliseconds: list[float] = []

    async def one(sandbox: Sandbox) -> None:
        async with places:
            began = time.perf_counter()
            await sandbox.run(["true"])
            milliseconds.append((time.perf_counter() - began) * 1000)

    for sandbox in sandboxes:
        await sandbox.run(["true"])
    chosen = [sandboxes[number % len(sandboxes)] for number in range(commands)]
    random.shuffle(chosen)
    before = (await reader.bounds(bus)).last
    began = time.perf_counter()
    await asyncio.gather(*(one(sandbox) for sandbox in chosen))
    took_s = time.perf_counter() - began
    events = (await reader.bounds(bus)).last - before
    return Speed(nodes=count, commands_per_s=commands / took_s, events_per_s=events / took_s, milliseconds=milliseconds)


def _figures(group: list[Speed], one: list[Speed]) -> list[Figure]:
    count = group[0].nodes
    what = f"`true` on {count} node{'s' if count > 1 else ''} of one machine, {AT_ONCE} at a time"
    is_compared = group is not one
    beside = f"{one[0].nodes} node"
    return [
        Figure(
            what=what,
            value=median([each.commands_per_s for each in group]),
            unit="/s",
            bare=median([each.commands_per_s for each in one]) if is_compared else None,
            beside=beside if is_compared else "",
            ratios=tuple(a.commands_per_s / b.commands_per_s for a, b in zip(group, one, strict=True))
            if is_compared
            else (),
        ),
        Figure(
            what=f"{what}: events stored",
            value=median([each.events_per_s for each in group]),
            unit="events/s",
            bare=median([each.events_per_s for each in one]) if is_compared else None,
            beside=beside if is_compared else "",
        ),
        Figure(
            what=f"{what}, p99",
            value=percentile([each for speed in group for each in speed.milliseconds], 99),
            unit="ms",
            bare=percentile([each for speed in one for each in speed.milliseconds], 99) if is_compared else None,
            beside=beside if is_compared else "",
        ),
    ]
