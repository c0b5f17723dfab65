"""From asking for a command in a container to knowing its end."""

import time

from contracts.errors import Invalid
from contracts.spec import Isolation
from infra.client import Sandbox
from infra.docker.engine import Engine
from infra.sandbox.providers import load_provider
from infra.target import DockerTarget
from services.cli.bench.bare_docker import BareDocker, has_command_line
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import median, percentile
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

AIM_RATIO = 0.2
WARM_UP = 3
IN_A_ROW = 25
TURN = 20
COMMAND = ("true",)
SLOT = "exec round trip on docker, slot ready"
BY_API = "aiodocker exec"
BY_COMMAND_LINE = "docker exec … true"

Times = dict[str, list[float]]
"""Milliseconds, by what was measured."""


async def docker_exec(rig: Rig, sizes: Sizes) -> list[Figure]:
    """On a node whose sandboxes are containers."""
    sandbox = await rig.cloche.create()
    target = await target_of(rig, sandbox)
    async with Engine(target.engine) as engine:
        bare = BareDocker(engine, target)
        for _ in range(WARM_UP):
            await sandbox.run(COMMAND)
            await bare.by_api(COMMAND)
        single = await _single(rig, sandbox, bare, sizes.docker_execs)
        row = await _in_a_row(rig, sandbox, bare, sizes.docker_execs)
    await sandbox.remove()
    return [*_figures(single), _row_figure(row)]


async def target_of(rig: Rig, sandbox: Sandbox) -> DockerTarget:
    async with load_provider(Isolation.DOCKER, rig.settings.data) as provider:
        target = await provider.target(sandbox.id)
    assert isinstance(target, DockerTarget)
    if target.shell is None:
        raise Invalid(f"no slots can be prepared in {rig.settings.sandbox.docker.image}: it has no shell")
    return target


async def _single(rig: Rig, sandbox: Sandbox, bare: BareDocker, count: int) -> Times:
    """One at a time, in turns: each kind is slowed down by what the engine still does about the one before."""
    times: Times = {"ours": [], "api": [], "command line": []}
    turns = [min(TURN, count - done) for done in range(0, count, TURN)]
    for turn in rig.progress.track(turns, description="exec on docker"):
        for _ in range(turn):
            await bare.until_stocked()
            times["ours"].append(await _ours(sandbox))
        await bare.until_stocked()
        times["api"] += [await bare.by_api(COMMAND) * 1000 for _ in range(turn)]
        if has_command_line():
            times["command line"] += [await bare.by_command_line(COMMAND) * 1000 for _ in range(turn)]
    return times


async def _in_a_row(rig: Rig, sandbox: Sandbox, bare: BareDocker, count: int) -> Times:
    """Without a pause, so that slots run out and are waited for."""
    times: Times = {"ours": [], "api": []}
    turns = [min(IN_A_ROW, count - done) for done in range(0, count, IN_A_ROW)]
    for turn in rig.progress.track(turns, description="exec on docker, in a row"):
        times["ours"] += [await _ours(sandbox) for _ in range(turn)]
        await bare.until_stocked()
        times["api"] += [await bare.by_api(COMMAND) * 1000 for _ in range(turn)]
    return times


async def _ours(sandbox: Sandbox) -> float:
    began = time.perf_counter()
    await sandbox.run(COMMAND)
    return (time.perf_counter() - began) * 1000


def _figures(times: Times) -> list[Figure]:
    return [
        Figure(
            what=f"{SLOT}, p50",
            value=median(times["ours"]),
            unit="ms",
            bare=median(times[name]),
            beside=beside,
            aim=Aim(ratio_below=AIM_RATIO) if name == "api" else None,
        )
        for name, beside in (("api", BY_API), ("command line", BY_COMMAND_LINE))
        if times[name]
    ] + [
        Figure(
            what=f"{SLOT}, p99",
            value=percentile(times["ours"], 99),
            unit="ms",
            bare=percentile(times["api"], 99),
            beside=BY_API,
        )
    ]


def _row_figure(times: Times) -> Figure:
    """The mean: what counts is how long they all took."""
    return Figure(
        what=f"exec round trip on docker, {IN_A_ROW} in a row, each",
        value=sum(times["ours"]) / len(times["ours"]),
        unit="ms",
        bare=sum(times["api"]) / len(times["api"]),
        beside=BY_API,
    )
