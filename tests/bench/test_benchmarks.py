"""Each benchmark once, on a real node, with sizes so small that the figures mean nothing: that there are some does."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from rich.progress import Progress

from contracts.errors import Invalid
from services.cli import running
from services.cli.bench.agents import agents
from services.cli.bench.audit_cost import compared
from services.cli.bench.browser import find_browser
from services.cli.bench.choice import HISTORY, MachineBenchmark
from services.cli.bench.claim import claim
from services.cli.bench.command_line import command_line
from services.cli.bench.density import BARE, SHORT
from services.cli.bench.density import measured as measured_density
from services.cli.bench.egress import DIRECT, egress
from services.cli.bench.figure import Figure
from services.cli.bench.file_event import file_event
from services.cli.bench.file_search import file_search
from services.cli.bench.file_storm import file_storm
from services.cli.bench.first_byte import first_byte
from services.cli.bench.gateway import BROADCAST, BUS, gateway
from services.cli.bench.growth import growth
from services.cli.bench.history import history_in
from services.cli.bench.large_log import large_log
from services.cli.bench.monitor import monitor
from services.cli.bench.nodes import nodes
from services.cli.bench.other_proxies import installed
from services.cli.bench.page import STATIC, page
from services.cli.bench.recovery import recovery
from services.cli.bench.replicas import partitions, replicas
from services.cli.bench.rig import Rig, running_node
from services.cli.bench.round_trip import round_trip
from services.cli.bench.sizes import Sizes
from services.cli.bench.throughput import throughput
from tests.bench.tiny import TINY
from tests.browser.chromium import needs_chromium
from tests.dashboard.tools import needs_node

# The node is left to itself on purpose: it must not end with whoever started it.
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

Benchmark = Callable[[Rig, Sizes], Awaitable[list[Figure]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """As in a whole run: one node for all that is measured on local sandboxes."""
    async with running_node(tmp_path_factory.mktemp("bench") / "node", Progress(disable=True)) as rig:
        yield rig


@pytest.mark.parametrize(
    ("benchmark_", "names"),
    [
        (round_trip, ["exec round trip, p50", "exec round trip, p99"]),
        (first_byte, ["line written → seen by a follower, p50", "line written → seen by a follower, p99"]),
        (command_line, ["from nothing running", "from nothing running", "running `up`", "running `up`"]),
        (claim, ["create on local, from the warm pool"]),
        (growth, ["a session of 3 commands: messages in the store", "a session of 3 commands: the store's directory"]),
    ],
)
async def test_a_benchmark_yields_figures_beside_bare_ones(rig: Rig, benchmark_: Benchmark, names: list[str]) -> None:
    figures = await benchmark_(rig, TINY)
    assert len(figures) == len(names)
    for figure, name in zip(figures, names, strict=True):
        assert name in figure.what
        assert figure.value > 0
        assert figure.ratio is not None
        assert figure.ratio > 0


async def test_the_throughput_benchmark_also_says_what_memory_it_cost(rig: Rig) -> None:
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
    rig: Rig, benchmark_: Benchmark, count: int
) -> None:
    figures = await benchmark_(rig, TINY)
    assert len(figures) == count
    assert all(figure.value > 0 for figure in figures)


async def test_a_monitor_is_measured_with_and_without_sandboxes(rig: Rig) -> None:
    figures = await monitor(rig, TINY)
    assert [(figure.what.partition(",")[2].strip(), figure.unit) for figure in figures] == [
        ("0 local sandboxes: CPU", "% of one"),
        ("0 local sandboxes: resident memory", "MB"),
        ("2 local sandboxes: CPU", "% of one"),
        ("2 local sandboxes: resident memory", "MB"),
    ]
    assert all(figure.value >= 0 for figure in figures)


async def test_sandboxes_that_do_nothing_are_measured_beside_bare_processes(rig: Rig) -> None:
    figures = await measured_density(rig, TINY)
    assert [(figure.what.rpartition(": ")[2], figure.beside) for figure in figures] == [
        ("memory, each", BARE),
        ("of it in services and servers, each", ""),
        ("CPU of all services and servers, idle", ""),
        ("made", BARE),
        ("exec round trip, p50", SHORT),
        ("exec round trip, p99", SHORT),
    ]
    assert all(figure.ratio for figure in figures if figure.beside)


@pytest.mark.parametrize(
    ("benchmark_", "beside"), [(replicas, "by one of them (R1)"), (partitions, "to one log"), (nodes, "1 node")]
)
async def test_servers_and_nodes_of_their_own_are_measured_beside_fewer(
    tmp_path: Path, benchmark_: MachineBenchmark, beside: str
) -> None:
    figures = await benchmark_(tmp_path, TINY, Progress(disable=True))
    assert all(figure.value > 0 for figure in figures)
    compared_ = [figure for figure in figures if figure.ratio]
    assert {figure.beside for figure in compared_} == {beside}
    assert "events/s" in {figure.unit for figure in compared_}
    assert "p99" in compared_[-1].what


async def test_deaths_are_timed_until_they_are_told_and_until_they_are_recovered(rig: Rig) -> None:
    figures = await recovery(rig, TINY)
    died, recovered = figures[0], figures[2]
    assert died.what == "death → `health.died` on local, no files, p50"
    assert recovered.what == "death → `sandbox.recovered` on local, no files, p50"
    assert 0 < died.value < recovered.value
    assert recovered.ratio
    assert figures[-1].what == "5 files restored from the log on local, p99"
    assert len(figures) == 10


async def test_an_agent_is_timed_as_it_is_told_something_and_as_it_is_stopped(rig: Rig) -> None:
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


async def test_the_proxy_is_measured_beside_none_and_beside_those_that_are_installed(rig: Rig) -> None:
    figures = await egress(rig, TINY)
    assert all(figure.value > 0 for figure in figures if figure.unit != "MB")
    downloads = [figure for figure in figures if "download" in figure.what and figure.beside == DIRECT]
    assert [figure.what.rpartition("MB ")[2] for figure in downloads] == ["by the proxy alone", "from a sandbox"]
    assert {figure.beside for figure in figures} >= {DIRECT, *installed()}
    rates = [figure for figure in figures if figure.unit in ("/s", "MB/s")]
    assert sum(figure.aim is not None for figure in rates) == (6 if installed() else 0)


async def test_the_gateway_is_measured_beside_a_bare_broadcast_and_beside_the_bus(rig: Rig) -> None:
    figures = await gateway(rig, TINY)
    assert [(figure.what.rpartition(", ")[2], figure.beside) for figure in figures] == [
        ("in all", BROADCAST),
        ("p50", ""),
        ("p99", ""),
        ("CPU of the gateway", BROADCAST),
        ("growth of the gateway", ""),
        ("p50", BUS),
        ("p99", BUS),
    ]
    assert figures[0].ratio
    assert figures[-1].ratio


@needs_chromium
@needs_node
async def test_the_page_of_a_long_session_is_measured_beside_one_that_only_shows_its_text(rig: Rig) -> None:
    program = find_browser()
    assert program is not None
    figures = await page(rig, TINY, program)
    assert [(figure.what.rpartition(", ")[2], figure.beside) for figure in figures] == [
        ("loaded", STATIC),
        ("first text of the newest terminal", STATIC),
        ("all of it there to slide over", ""),
    ]
    loaded, text, whole = figures
    assert loaded.ratio
    assert text.ratio
    assert whole.value > 0


async def test_the_large_log_is_read_by_sandbox_and_whole(tmp_path: Path) -> None:
    figures = await large_log(tmp_path, TINY, Progress(disable=True))
    assert [figure.what for figure in figures] == [
        "one sandbox (3 events over 30 sequences) out of 600 events",
        "one sandbox (3 events over 300 sequences) out of 600 events",
        "one sandbox (3 events over 600 sequences) out of 600 events",
        "the whole log of 600 events",
    ]
    assert all(figure.ratio for figure in figures)


async def test_a_long_history_is_read_asked_about_verified_and_exported_and_others_write_beside_it(
    tmp_path: Path,
) -> None:
    async with history_in(tmp_path / "node", TINY, Progress(disable=True)) as history:
        figures = [figure for benchmark in HISTORY.values() for figure in await benchmark(history, TINY)]
        figures += await compared(history.rig, history.rig, TINY)
    names = [
        "400 events of one sandbox read",
        "p50",
        "p99",
        "`verify` of a log",
        "as JSONL",
        "as asciicast",
        "as HTML",
        "200 events published, with the audit chain",
    ]
    assert len(figures) == len(names)
    for figure, name in zip(figures, names, strict=True):
        assert name in figure.what
        assert figure.value > 0
        assert figure.ratio


async def test_a_pool_of_none_is_not_measured_and_nothing_of_the_node_is_left_after_a_benchmark_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_POOL", "0")
    data = tmp_path / "node"
    with pytest.raises(Invalid, match="unset CLOCHE_POOL"):
        async with running_node(data, Progress(disable=True)) as rig:
            await rig.cloche.create()
            assert _processes_of(data)
            await claim(rig, TINY)
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
