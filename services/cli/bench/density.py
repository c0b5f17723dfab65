"""Very many sandboxes alive on one node, nothing happening in them: what each costs, and what a command costs then."""

import asyncio
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from rich.progress import Progress

from contracts.spec import Isolation
from infra.client import Sandbox
from infra.embedded import store
from infra.sandbox.providers import load_provider
from services.cli.bench.bare import bubblewrap, timed
from services.cli.bench.figure import Figure
from services.cli.bench.percentile import percentile
from services.cli.bench.rig import Rig, running_node
from services.cli.bench.sizes import Sizes

AT_ONCE = 4
SPARE = 20
MB = 1024 * 1024
BARE = "bwrap … sleep"
SHORT = "bwrap … true"
TURN = 25


class Cost(NamedTuple):
    memory: float
    """Bytes, what processes share counted once."""
    cpu_s: float


async def density(place: Path, sizes: Sizes, progress: Progress) -> list[Figure]:
    """On a node of its own: with so many sandboxes it is of no use for anything else."""
    more = f"max_sandboxes = {sizes.alive + SPARE}\n"
    async with running_node(place / "dense", progress, more=more) as rig:
        return await measured(rig, sizes)


async def measured(rig: Rig, sizes: Sizes) -> list[Figure]:
    services = _processes(rig)
    before = _cost(services)
    began = time.perf_counter()
    sandboxes = await _make(rig, sizes.alive)
    rate = sizes.alive / (time.perf_counter() - began)
    growth = _cost(services).memory - before.memory
    inside = _cost(await _of_sandboxes(rig, sandboxes))
    idle = await _idle(services, sizes.alive_s)
    execs = await _execs(rig, sandboxes, sizes.round_trips)
    bare_rate, bare_memory = await asyncio.to_thread(_bare, sizes.alive)
    what = f"{sizes.alive:,} sandboxes alive on one node"
    return [
        Figure(
            what=f"{what}: memory, each",
            value=(inside.memory + growth) / sizes.alive / MB,
            unit="MB",
            bare=bare_memory / sizes.alive / MB,
            beside=BARE,
        ),
        Figure(what=f"{what}: of it in services and servers, each", value=growth / sizes.alive / MB, unit="MB"),
        Figure(what=f"{what}: CPU of all services and servers, idle", value=idle * 100, unit="% of one"),
        Figure(what=f"{what}: made", value=rate, unit="/s", bare=bare_rate, beside=BARE),
        *(
            Figure(
                what=f"{what}: exec round trip, p{percent}",
                value=percentile(execs.ours, percent),
                unit="ms",
                bare=percentile(execs.bare, percent),
                beside=SHORT,
            )
            for percent in (50, 99)
        ),
    ]


def _processes(rig: Rig) -> list[psutil.Process]:
    """Services, keeper, NATS and gateway: all but what is in sandboxes."""
    record = store.read_record(rig.settings.data)
    node = psutil.Process(rig.processes[0])
    pids = {*rig.processes, *(child.pid for child in node.children())} | ({record.pid} if record else set())
    return [psutil.Process(pid) for pid in pids]


async def _of_sandboxes(rig: Rig, sandboxes: list[Sandbox]) -> list[psutil.Process]:
    """The first process of each, and the bubblewrap around it."""
    found: list[psutil.Process] = []
    async with load_provider(Isolation.LOCAL, rig.settings.data) as provider:
        for sandbox in sandboxes:
            seen = await provider.inspect(sandbox.id)
            if seen is not None and seen.pid is not None:
                first = psutil.Process(seen.pid)
                found += [each for each in (first, first.parent()) if each is not None and each.pid != 1]
    return found


def _cost(processes: list[psutil.Process]) -> Cost:
    memory = cpu = 0.0
    for process in processes:
        try:
            memory += process.memory_full_info().pss
            times = process.cpu_times()
        except psutil.Error:
            continue
        cpu += times.user + times.system
    return Cost(memory, cpu)


async def _make(rig: Rig, count: int) -> list[Sandbox]:
    places = asyncio.Semaphore(AT_ONCE)

    async def one() -> Sandbox:
        async with places:
            return await rig.cloche.create()

    made = [asyncio.create_task(one()) for _ in range(count)]
    tracked = rig.progress.track(asyncio.as_completed(made), total=count, description="making sandboxes")
    return [await each for each in tracked]


async def _idle(processes: list[psutil.Process], seconds: float) -> float:
    before = _cost(processes).cpu_s
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    return (_cost(processes).cpu_s - before) / (time.perf_counter() - began)


class Execs(NamedTuple):
    ours: list[float]
    bare: list[float]


async def _execs(rig: Rig, sandboxes: list[Sandbox], count: int) -> Execs:
    """Each in any of them, in turns with the bare ones."""
    ours: list[float] = []
    bare: list[float] = []
    turns = [min(TURN, count - done) for done in range(0, count, TURN)]
    for turn in rig.progress.track(turns, description="exec among many"):
        for _ in range(turn):
            began = time.perf_counter()
            await random.choice(sandboxes).run(["true"])  # noqa: S311  not for secrets
            ours.append((time.perf_counter() - began) * 1000)
        bare += [await timed(bubblewrap("true")) * 1000 for _ in range(turn)]
    return Execs(ours, bare)


def _bare(count: int) -> tuple[float, float]:
    """How many are made in a second, each waited for until it runs, and the bytes that all hold."""
    with _alive(count) as (processes, took):
        return count / took, _cost(_trees(processes)).memory


def _trees(processes: list["subprocess.Popen[bytes]"]) -> list[psutil.Process]:
    """They and all that came of them, by one look at what there is: psutil's own takes one for each of them."""
    below: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter(["ppid"]):
        below.setdefault(process.info["ppid"], []).append(process)
    found = [psutil.Process(each.pid) for each in processes]
    for process in found:
        found += below.get(process.pid, [])
    return found


@contextmanager
def _alive(count: int) -> Iterator[tuple[list["subprocess.Popen[bytes]"], float]]:
    processes: list[subprocess.Popen[bytes]] = []
    bwrap, *arguments = bubblewrap("sh", "-c", "echo; exec sleep 3600")
    # Else what is inside would outlive it.
    argv = [bwrap, "--die-with-parent", *arguments]
    try:
        began = time.perf_counter()
        for _ in range(count):
            process = subprocess.Popen(argv, stdout=subprocess.PIPE)
            processes.append(process)
            assert process.stdout is not None
            process.stdout.readline()
        yield processes, time.perf_counter() - began
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
