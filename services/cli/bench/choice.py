"""Which benchmarks a run has, and what those that it lacks would need."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from rich.progress import Progress

from contracts.errors import Invalid
from services.cli.bench.agents import agents
from services.cli.bench.claim import claim
from services.cli.bench.command_line import command_line
from services.cli.bench.density import density
from services.cli.bench.docker_exec import docker_exec
from services.cli.bench.egress import egress
from services.cli.bench.exporting import exporting
from services.cli.bench.figure import Figure
from services.cli.bench.file_calls import file_calls
from services.cli.bench.file_event import file_event
from services.cli.bench.file_search import file_search
from services.cli.bench.file_storm import file_storm
from services.cli.bench.first_byte import first_byte
from services.cli.bench.gateway import gateway
from services.cli.bench.growth import growth
from services.cli.bench.history import HistoryBenchmark
from services.cli.bench.log_reading import log_reading
from services.cli.bench.monitor import monitor
from services.cli.bench.nodes import nodes
from services.cli.bench.page import page
from services.cli.bench.past_state import past_state
from services.cli.bench.recovery import recovery
from services.cli.bench.replicas import partitions, replicas
from services.cli.bench.rig import Rig
from services.cli.bench.round_trip import round_trip
from services.cli.bench.sizes import Sizes
from services.cli.bench.swe_rex import swe_rex
from services.cli.bench.throughput import throughput
from services.cli.bench.verifying import verifying

T = TypeVar("T")
Benchmark = Callable[[Rig, Sizes], Awaitable[list[Figure]]]
MachineBenchmark = Callable[[Path, Sizes, Progress], Awaitable[list[Figure]]]

LOCAL: dict[str, Benchmark] = {
    "round-trip": round_trip,
    "first-byte": first_byte,
    "throughput": throughput,
    "command-line": command_line,
    "claim": claim,
    "file-event": file_event,
    "file-storm": file_storm,
    "file-search": file_search,
    "recovery": recovery,
    "monitor": monitor,
    "egress": egress,
    "agents": agents,
    "gateway": gateway,
    "growth": growth,
}
DOCKER: dict[str, Benchmark] = {
    "docker-exec": docker_exec,
    "docker-claim": claim,
    "docker-files": file_calls,
    "docker-recovery": recovery,
}
HISTORY: dict[str, HistoryBenchmark] = {
    "log-reading": log_reading,
    "past-state": past_state,
    "verify": verifying,
    "export": exporting,
}
"""All of one sandbox with a long history, which is written once."""
MACHINE: dict[str, MachineBenchmark] = {
    "density": density,
    "replicas": replicas,
    "partitions": partitions,
    "nodes": nodes,
}
"""Each on servers and nodes of its own."""
PAGE = "page"
SWE_REX = "swe-rex"
LARGE_LOG = "large-log"
AUDIT_COST = "audit-cost"
NAMES = (*LOCAL, PAGE, SWE_REX, *DOCKER, LARGE_LOG, *HISTORY, AUDIT_COST, *MACHINE)

NEEDS_IMAGE = "name an image that has a shell: `cloche bench --docker IMAGE`, or CLOCHE_BENCH_IMAGE"
NEEDS_BROWSER = "install Chromium, and Playwright with `uv sync --group dev`"
NEEDS_SWE_REX = (
    "install it with `uv sync --group bench`, or name a Python that has it: "
    "`cloche bench --swe-rex PYTHON`, or CLOCHE_BENCH_SWE_REX"
)


class Choice(Struct, frozen=True, kw_only=True):
    """What a person asked for, and what is there for it."""

    only: tuple[str, ...] = ()
    """Names of benchmarks; none = all that can be run."""
    image: str | None = None
    browser: str | None = None
    """A Chromium that Playwright can drive."""
    swe_rex: str | None = None
    """A Python that has it."""

    def check(self) -> None:
        """Raises `Invalid` for a name that is none, and for one whose needs are not met."""
        for name in self.only:
            if name not in NAMES:
                raise Invalid(f"no benchmark is called {name!r}; there are {', '.join(NAMES)}")
            if name in DOCKER and self.image is None:
                raise Invalid(f"{name}: {NEEDS_IMAGE}")
            if name == PAGE and self.browser is None:
                raise Invalid(f"{name}: {NEEDS_BROWSER}")
            if name == SWE_REX and self.swe_rex is None:
                raise Invalid(f"{name}: {NEEDS_SWE_REX}")

    def wants(self, name: str) -> bool:
        return not self.only or name in self.only

    def local(self) -> dict[str, Benchmark]:
        runs = dict(LOCAL)
        if self.browser is not None:
            runs[PAGE] = partial(page, program=self.browser)
        if self.swe_rex is not None:
            runs[SWE_REX] = partial(swe_rex, python=self.swe_rex)
        return self._wanted(runs)

    def docker(self) -> dict[str, Benchmark]:
        return {} if self.image is None else self._wanted(DOCKER)

    def history(self) -> dict[str, HistoryBenchmark]:
        return self._wanted(HISTORY)

    def machine(self) -> dict[str, MachineBenchmark]:
        return self._wanted(MACHINE)

    def _wanted(self, runs: Mapping[str, T]) -> dict[str, T]:
        return {name: run for name, run in runs.items() if self.wants(name)}

    def lacking(self, *, engine: bool) -> list[str]:
        """A line for each kind of figure that was not left out on purpose; `engine` = one answers here."""
        if self.only:
            return []
        docker = [f"no figures of Docker: {NEEDS_IMAGE}"] if engine and self.image is None else []
        browser = [f"no figures of the dashboard's page: {NEEDS_BROWSER}"] if self.browser is None else []
        return docker + browser + ([f"no figures of SWE-ReX: {NEEDS_SWE_REX}"] if self.swe_rex is None else [])
