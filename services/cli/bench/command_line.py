"""A whole `cloche run -- true`, as a person waits for it."""

import os
import sys
import tempfile
from pathlib import Path

from services.cli.bench.bare import bubblewrap, timed
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig, end_node, settings_in
from services.cli.bench.sizes import Sizes

ROOT = Path(__file__).resolve().parents[3]
AIM_COLD_S = 3
AIM_WARM_S = 0.5


def launcher() -> list[str]:
    """`./cloche`, where it would start at once: it must not install anything here."""
    script, lock, installed = ROOT / "cloche", ROOT / "uv.lock", ROOT / ".venv" / ".cloche-installed"
    if all(file.is_file() for file in (script, lock, installed)) and lock.read_bytes() == installed.read_bytes():
        return [str(script)]
    return [sys.executable, "-m", "services.cli"]


async def command_line(rig: Rig, sizes: Sizes) -> list[Figure]:
    run = [*launcher(), "run", "--", "true"]
    times: dict[str, list[float]] = {"cold": [], "warm": [], "python": [], "bwrap": []}
    for _ in rig.progress.track(range(sizes.command_lines), description="command line"):
        times["cold"].append(await _from_nothing(run, rig.settings.data.parent))
        times["warm"].append(await timed(run, {**os.environ, "CLOCHE_DATA": str(rig.settings.data)}))
        times["python"].append(await timed([sys.executable, "-c", "pass"]))
        times["bwrap"].append(await timed(bubblewrap("true")))
    middle = {name: median(values) for name, values in times.items()}
    return [
        *_figures("from nothing running", middle["cold"], middle, AIM_COLD_S),
        *_figures("against a running `up`", middle["warm"], middle, AIM_WARM_S),
    ]


def _figures(how: str, value: float, middle: dict[str, float], aim_s: float) -> list[Figure]:
    what = f"`cloche run -- true`, {how}"
    return [
        Figure(what=what, value=value, unit="s", bare=middle["bwrap"], beside="bwrap … true", aim=Aim(below=aim_s)),
        Figure(what=what, value=value, unit="s", bare=middle["python"], beside="python -c pass"),
    ]


async def _from_nothing(run: list[str], place: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="nothing-", dir=place) as directory:
        settings = settings_in(Path(directory))
        try:
            return await timed(run, {**os.environ, "CLOCHE_DATA": directory})
        finally:
            await end_node(settings)
