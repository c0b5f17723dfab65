"""Each benchmark once, on a real node, with sizes so small that the figures mean nothing: that there are some does."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from rich.progress import Progress

from services.cli import running
from services.cli.bench.agents import agents
from services.cli.bench.claim import claim
from services.cli.bench.command_line import command_line
from services.cli.bench.figure import Figure
from services.cli.bench.file_event import file_event
from services.cli.bench.file_search import file_search
from services.cli.bench.file_storm import file_storm
from services.cli.bench.first_byte import first_byte
from services.cli.bench.large_log import large_log
from services.cli.bench.monitor import monitor
from services.cli.bench.recovery import recovery
from services.cli.bench.rig import Rig, running_node
from services.cli.bench.round_trip import round_trip
from services.cli.bench.sizes import Sizes
from services.cli.bench.throughput import throughput
from tests.bench.tiny import TINY

# The node is left to itself on purpose: it must not end with whoever started it.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")

Benchmark = Callable[[Rig, Sizes], Awaitable[list[Figure]]]


@pytest.mark.parametrize(
    ("benchmark_", "names"),
    [
        (round_trip, ["exec round trip, p50", "exec round trip, p99"]),
        (first_byte, ["line written → seen by a follower, p50", "line written → seen by a follower, p99"]),
        (command_line, ["from nothing running", "from nothing running", "running `up`", "running `up`"]),
        (claim, ["create on local, from the warm pool"]),
    ],
)
async def test_a_benchmark_yields_figures_beside_bare_ones(
    tmp_path: Path, benchmark_: Benchmark, names: list[str]
) -> None:
    async with running_node(tmp_path / "node", Progress(disable=True)) as rig:
        figures = await benchmark_(rig, TINY)
    assert len(figures) == len(names)
    for figure, name in zip(figures, names, strict=True):
        assert name in figure.what
        assert figure.value > 0
        assert figure.ratio is not None
        assert figure.ratio > 0


async def test_the_throughput_benchmark_also_says_what_memory_it_cost(tmp_path: Path) -> None:
    async with running_node(tmp_path / "node", Progress(disable=True)) as rig:
        unwatched, followed, growth = await throughput(rig, TINY)
        streams = await rig.admin.api("STREAM.NAMES")
    assert unwatched.ratio
    assert followed.ratio
    assert unwatched.bare == followed.bare
    assert (growth.unit, growth.bare) == ("MB", None)
    assert growth.value >= 0
    assert "BENCH" not in streams["streams"], "the scratch stream stays behind"


@pytest.mark.parametrize(("benchmark_", "count"), [(file_event, 2), (file_storm, 1), (file_search, 1)])
async def test_a_benchmark_of_files_needs_nothing_to_be_compared_with(
    tmp_path: Path, benchmark_: Benchmark, count: int
) -> None:
    async with running_node(tmp_path / "node", Progress(disable=True)) as rig:
        figures = await benchmark_(rig, TINY)
    assert len(figures) == count
    assert all(figure.value > 0 for figure in figures)


async def test_a_monitor_is_measured_with_and_without_sandboxes(tmp_path: Path) -> None:
    async with running_node(tmp_path / "node", Progress(disable=True)) as rig:
        figures = await monitor(rig, TINY)
    assert [(figure.what.partition(",")[2].strip(), figure.unit) for figure in figures] == [
        ("0 local sandboxes: CPU", "% of one"),
        ("0 local sandboxes: resident memory", "MB"),
        ("2 local sandboxes: CPU", "% of one"),
        ("2 local sandboxes: resident memory", "MB"),
    ]
    assert all(figure.value >= 0 for figure in figures)


async def test_deaths_are_timed_until_they_are_told_and_until_they_are_recovered(tmp_path: Path) -> None:
    async with running_node(tmp_path / "node", Progress(disable=True)) as rig:
        figures = await recovery(rig, TINY)
    died, recovered = figures[0], figures[2]
    assert died.what == "death → `health.died` on local, no files, p50"
    assert recovered.what == "death → `sandbox.recovered` on local, no files, p50"
    assert 0 < died.value < recovered.value
    assert recovered.ratio
    assert figures[-1].what == "5 files restored from the log on local, p99"
    assert len(figures) == 10


async def test_an_agent_is_timed_as_it_is_told_something_and_as_it_is_stopped(tmp_path: Path) -> None:
    async with running_node(tmp_path / "node", Progress(disable=True)) as rig:
        figures = await agents(rig, TINY)
        streams = await rig.admin.api("STREAM.NAMES")
    assert [(figure.what.rpartition(",")[0], figure.beside) for figure in figures[::2]] == [
        ("intervention published → delivered into a turn", "stored by NATS → seen"),
        ("intervention published → delivered into a turn", "stored by NATS → seen"),
        ("interrupt published → a tree that ends at SIGTERM has ended", "SIGKILL to bwrap … sleep"),
        ("interrupt published → a tree that ignores SIGTERM has ended", "SIGKILL to bwrap … sleep"),
    ]
    assert all(figure.ratio for figure in figures)
    assert "BENCH" not in streams["streams"], "the scratch stream stays behind"


async def test_the_large_log_is_read_by_sandbox_and_whole(tmp_path: Path) -> None:
    figures = await large_log(tmp_path, TINY, Progress(disable=True))
    assert [figure.what for figure in figures] == [
        "one sandbox (3 events over 30 sequences) out of 600 events",
        "one sandbox (3 events over 300 sequences) out of 600 events",
        "one sandbox (3 events over 600 sequences) out of 600 events",
        "the whole log of 600 events",
    ]
    assert all(figure.ratio for figure in figures)


async def test_nothing_of_the_node_is_left_after_a_benchmark_that_fails(tmp_path: Path) -> None:
    data = tmp_path / "node"
    with pytest.raises(RuntimeError, match="in the middle"):
        async with running_node(data, Progress(disable=True)) as rig:
            await rig.cloche.create()
            raise RuntimeError("in the middle")
    assert running.find(data) is None
    assert _processes_of(data) == []


def _processes_of(data: Path) -> list[str]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(data) in words:
            found.append(words)
    return found
