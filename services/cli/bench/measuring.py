"""Every benchmark in one run, and the table of what came out."""

import datetime
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from contracts.errors import Unavailable
from infra.docker.engine import Engine
from infra.docker.finding import find_engine
from infra.sandbox.docker.imaging import ImageSource
from services.cli.bench.audit_cost import audit_cost
from services.cli.bench.choice import AUDIT_COST, LARGE_LOG, NAMES, Benchmark, Choice
from services.cli.bench.command_line import ROOT
from services.cli.bench.figure import Measured
from services.cli.bench.history import histories
from services.cli.bench.large_log import large_log
from services.cli.bench.rig import running_node, settings_in
from services.cli.bench.sizes import FULL, QUICK, Sizes
from services.cli.bench.table import as_markdown, conditions, for_terminal, store

PAGE = ROOT / "docs" / "benchmarks.md"
DISK = Path("/var/tmp")  # noqa: S108  /tmp may be in memory, and then durability `disk` would mean nothing


async def measure(choice: Choice, *, quick: bool, write: bool) -> int:
    """Prints the table; `write` stores each part of it in docs/benchmarks.md, and leaves the others there. A missed aim
    is shown, and is no failure.

    Raises before anything is measured: `Invalid` for a choice that cannot be, `Unavailable` where no engine answers
    and one is needed, `SandboxCreationFailed` for an image that cannot be had.
    """
    choice.check()
    engine_answers = await _look_at_engine(choice.image)
    sizes = QUICK if quick else FULL
    errors = Console(stderr=True)
    with scratch() as directory:
        place = Path(directory)
        under = conditions(datetime.datetime.now(datetime.UTC), settings_in(place / "node").durability, quick=quick)
        with Progress(console=errors, transient=True) as progress:
            measured = await _measured(place, choice, sizes, progress)
    Console().print(for_terminal([figure for figures in measured.values() for figure in figures], under))
    for line in choice.lacking(engine=engine_answers):
        errors.print(line, markup=False)
    if write:
        store(PAGE, {name: as_markdown(figures, under) for name, figures in measured.items()}, NAMES)
        errors.print(f"wrote {PAGE}")
    return 0


async def _look_at_engine(image: str | None) -> bool:
    """Whether one answers; an image is pulled now, so that nobody measures that."""
    async with Engine(find_engine()) as engine:
        try:
            await engine.ping()
        except Unavailable:
            if image is not None:
                raise
            return False
        if image is not None:
            await ImageSource(engine).have(image)
    return True


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cloche-bench-", dir=DISK if DISK.is_dir() else None)


async def _measured(place: Path, choice: Choice, sizes: Sizes, progress: Progress) -> Measured:
    measured = await _on_a_node(place / "node", choice.local(), sizes, progress)
    measured |= await _on_a_node(place / "docker", choice.docker(), sizes, progress, choice.image)
    if choice.wants(LARGE_LOG):
        measured[LARGE_LOG] = await large_log(place, sizes, progress)
    measured |= await histories(place, choice.history(), sizes, progress)
    if choice.wants(AUDIT_COST):
        measured[AUDIT_COST] = await audit_cost(place, sizes, progress)
    for name, benchmark in choice.machine().items():
        measured[name] = await benchmark(place, sizes, progress)
    return measured


async def _on_a_node(
    data: Path, benchmarks: Mapping[str, Benchmark], sizes: Sizes, progress: Progress, image: str | None = None
) -> Measured:
    if not benchmarks:
        return {}
    async with running_node(data, progress, image) as rig:
        return {name: await benchmark(rig, sizes) for name, benchmark in benchmarks.items()}
