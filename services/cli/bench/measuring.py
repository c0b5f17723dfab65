"""Every benchmark in one run, and the table of what came out."""

import datetime
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from services.cli.bench.command_line import ROOT, command_line
from services.cli.bench.figure import Figure
from services.cli.bench.first_byte import first_byte
from services.cli.bench.large_log import large_log
from services.cli.bench.rig import Rig, running_node, settings_in
from services.cli.bench.round_trip import round_trip
from services.cli.bench.sizes import FULL, QUICK, Sizes
from services.cli.bench.table import as_markdown, conditions, for_terminal, store
from services.cli.bench.throughput import throughput

PAGE = ROOT / "docs" / "benchmarks.md"
DISK = Path("/var/tmp")  # noqa: S108  /tmp may be in memory, and then durability `disk` would mean nothing

ON_A_NODE: tuple[Callable[[Rig, Sizes], Awaitable[list[Figure]]], ...] = (
    round_trip,
    first_byte,
    throughput,
    command_line,
)


async def measure(*, quick: bool, write: bool) -> int:
    """Prints the table; `write` stores it in docs/benchmarks.md. A missed aim is shown, and is no failure."""
    sizes = QUICK if quick else FULL
    errors = Console(stderr=True)
    with _place() as directory:
        place = Path(directory)
        under = conditions(datetime.datetime.now(datetime.UTC), settings_in(place / "node").durability, quick=quick)
        with Progress(console=errors, transient=True) as progress:
            figures = await _figures(place, sizes, progress)
    Console().print(for_terminal(figures, under))
    if write:
        store(PAGE, as_markdown(figures, under))
        errors.print(f"wrote {PAGE}")
    return 0


def _place() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cloche-bench-", dir=DISK if DISK.is_dir() else None)


async def _figures(place: Path, sizes: Sizes, progress: Progress) -> list[Figure]:
    figures: list[Figure] = []
    async with running_node(place / "node", progress) as rig:
        for benchmark in ON_A_NODE:
            figures += await benchmark(rig, sizes)
    return figures + await large_log(place, sizes, progress)
