"""Which benchmarks a run has, and what those that it lacks would need."""

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from contracts.errors import Invalid
from services.cli.bench.agents import agents
from services.cli.bench.claim import claim
from services.cli.bench.command_line import command_line
from services.cli.bench.docker_exec import docker_exec
from services.cli.bench.egress import egress
from services.cli.bench.figure import Figure
from services.cli.bench.file_calls import file_calls
from services.cli.bench.file_event import file_event
from services.cli.bench.file_search import file_search
from services.cli.bench.file_storm import file_storm
from services.cli.bench.first_byte import first_byte
from services.cli.bench.monitor import monitor
from services.cli.bench.recovery import recovery
from services.cli.bench.rig import Rig
from services.cli.bench.round_trip import round_trip
from services.cli.bench.sizes import Sizes
from services.cli.bench.swe_rex import swe_rex
from services.cli.bench.throughput import throughput

Benchmark = Callable[[Rig, Sizes], Awaitable[list[Figure]]]

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
}
DOCKER: dict[str, Benchmark] = {
    "docker-exec": docker_exec,
    "docker-claim": claim,
    "docker-files": file_calls,
    "docker-recovery": recovery,
}
SWE_REX = "swe-rex"
LARGE_LOG = "large-log"
NAMES = (*LOCAL, SWE_REX, *DOCKER, LARGE_LOG)

NEEDS_IMAGE = "name an image that has a shell: `cloche bench --docker IMAGE`, or CLOCHE_BENCH_IMAGE"
NEEDS_SWE_REX = (
    "install it with `uv sync --group bench`, or name a Python that has it: "
    "`cloche bench --swe-rex PYTHON`, or CLOCHE_BENCH_SWE_REX"
)


class Choice(Struct, frozen=True, kw_only=True):
    """What a person asked for, and what is there for it."""

    only: tuple[str, ...] = ()
    """Names of benchmarks; none = all that can be run."""
    image: str | None = None
    swe_rex: str | None = None
    """A Python that has it."""

    def check(self) -> None:
        """Raises `Invalid` for a name that is none, and for one whose needs are not met."""
        for name in self.only:
            if name not in NAMES:
                raise Invalid(f"no benchmark is called {name!r}; there are {', '.join(NAMES)}")
            if name in DOCKER and self.image is None:
                raise Invalid(f"{name}: {NEEDS_IMAGE}")
            if name == SWE_REX and self.swe_rex is None:
                raise Invalid(f"{name}: {NEEDS_SWE_REX}")

    def wants(self, name: str) -> bool:
        return not self.only or name in self.only

    def local(self) -> list[Benchmark]:
        runs = dict(LOCAL)
        if self.swe_rex is not None:
            runs[SWE_REX] = partial(swe_rex, python=self.swe_rex)
        return [run for name, run in runs.items() if self.wants(name)]

    def docker(self) -> list[Benchmark]:
        return [run for name, run in DOCKER.items() if self.wants(name) and self.image is not None]

    def lacking(self, *, engine: bool) -> list[str]:
        """A line for each kind of figure that was not left out on purpose; `engine` = one answers here."""
        if self.only:
            return []
        docker = [f"no figures of Docker: {NEEDS_IMAGE}"] if engine and self.image is None else []
        return docker + ([f"no figures of SWE-ReX: {NEEDS_SWE_REX}"] if self.swe_rex is None else [])
