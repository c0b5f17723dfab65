"""Requests, tunnels and downloads through the proxy, beside none and beside proxies that people know."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from rich.progress import Progress

from contracts.egress import PROXY_PORT
from services.cli.bench.egress_inside import fetch, here, inside
from services.cli.bench.egress_load import Way, download, echoes, small
from services.cli.bench.egress_servers import ORIGIN, served
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.memory import watched
from services.cli.bench.other_proxies import PROXIES, running
from services.cli.bench.percentile import median, percentile
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

OURS, DIRECT = "ours", "a direct connection"
AIM = Aim(ratio_from=0.7)
AIM_GROWTH = Aim(below=40)
MB = 1024 * 1024
KEPT, EACH, TUNNEL = (
    "small requests on kept connections",
    "small requests on a connection each",
    "small echoes in tunnels",
)


class Measured(Protocol):
    """Requests of one kind on one way."""

    @property
    def rate(self) -> float: ...

    @property
    def latencies_ms(self) -> list[float]: ...


Runs = dict[str, dict[str, list[Measured]]]
"""Of every round, by what was asked and the way that was gone."""
Speeds = dict[str, list[float]]


async def egress(rig: Rig, sizes: Sizes) -> list[Figure]:
    """The proxy by itself; then as a sandbox has it, with the policy and the record of a node."""
    async with reached(rig.settings.data.parent / "proxies") as reach:
        figures = await by_itself(reach, sizes, rig.progress)
        return figures + await from_a_sandbox(rig, reach, sizes)


class Reach(NamedTuple):
    ways: dict[str, Way]
    pid: int
    """Of our proxy."""


@asynccontextmanager
async def reached(place: Path) -> AsyncIterator[Reach]:
    """Other proxies have their files in `place`."""
    async with served("origin") as origin, served("proxy") as ours, running(place) as others:
        ports: dict[str, int | None] = {OURS: ours.ports[0], DIRECT: None, **others}
        yield Reach({name: Way(port, *origin.ports) for name, port in ports.items()}, ours.pid)


async def by_itself(reach: Reach, sizes: Sizes, progress: Progress) -> list[Figure]:
    for way in reach.ways.values():
        await small(way, sizes.requests // 10, keep=True)
    runs: Runs = {what: {name: [] for name in reach.ways} for what in (KEPT, EACH, TUNNEL)}
    downloads: Speeds = {name: [] for name in reach.ways}
    size_mb = sizes.downloaded_bytes / MB
    async with watched(reach.pid) as growth:
        for _ in progress.track(range(sizes.rounds), description="egress"):
            for name, way in reach.ways.items():
                runs[KEPT][name].append(await small(way, sizes.requests, keep=True))
                runs[EACH][name].append(await small(way, sizes.requests, keep=False))
                runs[TUNNEL][name].append(await echoes(way, sizes.requests))
                downloads[name].append(size_mb / await download(way, sizes.downloaded_bytes))
    return [
        *_figures(runs, "by the proxy alone"),
        *_beside(f"download of {size_mb:.0f} MB by the proxy alone", "MB/s", downloads),
        Figure(what="growth of the proxy meanwhile", value=growth.bytes / MB, unit="MB", aim=AIM_GROWTH),
    ]


async def from_a_sandbox(rig: Rig, reach: Reach, sizes: Sizes) -> list[Figure]:
    """The same program on all ways: in a sandbox on ours, and outside on the others."""
    web = reach.ways[DIRECT].web
    sandbox = await rig.cloche.create({"network": {"allowed_hosts": [ORIGIN], "allowed_ports": [web]}})
    ways = {**reach.ways, OURS: Way(PROXY_PORT, web, 0)}
    start = {name: inside(sandbox) if name == OURS else here for name in ways}
    runs: Runs = {KEPT: {name: [] for name in ways}}
    downloads: Speeds = {name: [] for name in ways}
    size_mb = sizes.downloaded_bytes / MB
    for _ in rig.progress.track(range(sizes.rounds), description="egress from a sandbox"):
        for name, way in ways.items():
            runs[KEPT][name].append(await fetch(start[name], way, "/", sizes.requests))
            large = await fetch(start[name], way, f"/large/{sizes.downloaded_bytes}", 1, 1)
            downloads[name].append(size_mb / large.seconds)
    await sandbox.remove()
    return [
        *_figures(runs, "from a sandbox"),
        *_beside(f"download of {size_mb:.0f} MB from a sandbox", "MB/s", downloads),
    ]


def _figures(runs: Runs, how: str) -> Iterable[Figure]:
    for what, by_way in runs.items():
        rates = {name: [run.rate for run in each] for name, each in by_way.items()}
        yield from _beside(f"{what}, {how}", "/s", rates)
        yield from _latencies(f"{what}, {how}", by_way, _best(rates))


def _best(rates: Speeds) -> str | None:
    others = {name: median(each) for name, each in rates.items() if name not in (OURS, DIRECT)}
    return max(others, key=lambda name: others[name]) if others else None


def _beside(what: str, unit: str, rates: Speeds) -> Iterable[Figure]:
    """The aim is to keep up with the better of the others."""
    best = _best(rates)
    if best is None:
        yield Figure(
            what=what, value=median(rates[OURS]), unit=unit, beside=f"none of {', '.join(PROXIES)} is installed"
        )
    for name in rates:
        if name != OURS:
            yield Figure(
                what=what,
                value=median(rates[OURS]),
                unit=unit,
                bare=median(rates[name]),
                beside=name,
                ratios=tuple(mine / theirs for mine, theirs in zip(rates[OURS], rates[name], strict=True)),
                aim=AIM if name == best else None,
            )


def _latencies(what: str, runs: dict[str, list[Measured]], best: str | None) -> Iterable[Figure]:
    all_ms = {name: [ms for run in each for ms in run.latencies_ms] for name, each in runs.items()}
    for percent in (50, 99):
        for name in (DIRECT, best):
            if name is not None:
                yield Figure(
                    what=f"{what}, p{percent}",
                    value=percentile(all_ms[OURS], percent),
                    unit="ms",
                    bare=percentile(all_ms[name], percent),
                    beside=name,
                )
