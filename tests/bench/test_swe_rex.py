import os
import sys
from pathlib import Path

import pytest
from rich.progress import Progress

from contracts.errors import Invalid, Unavailable
from services.cli.bench.rig import running_node
from services.cli.bench.swe_rex import swe_rex
from services.cli.bench.swe_rex_process import find_swe_rex, swe_rex_process
from tests.bench.tiny import TINY

# The node is left to itself on purpose: it must not end with whoever started it.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


def python() -> str:
    found = find_swe_rex(os.environ.get("CLOCHE_BENCH_SWE_REX"))
    if found is None:
        pytest.skip("SWE-ReX is not installed: `uv sync --group bench`, or CLOCHE_BENCH_SWE_REX=PYTHON")
    return found


async def test_figures_of_swe_rex_stand_beside_ours(tmp_path: Path) -> None:
    found = python()
    async with running_node(tmp_path / "node", Progress(disable=True)) as rig:
        figures = await swe_rex(rig, TINY, found)
    assert [(figure.what, figure.unit) for figure in figures] == [
        ("exec round trip, p50", "ms"),
        ("3 × `true` at once, all ended", "ms"),
        ("3 × `sleep 0.2` at once, all ended", "ms"),
        ("1 MB of output, handed over whole", "MB/s"),
    ]
    assert all(figure.ratio for figure in figures)


async def test_swe_rex_runs_what_it_is_given_and_counts_its_output() -> None:
    async with swe_rex_process(python()) as rex:
        assert (await rex.run("printf 12345")).characters == 5
        assert (await rex.run(["printf", "$HOME"], at_once=3)).characters == 15


async def test_a_command_that_fails_under_swe_rex_is_no_measurement() -> None:
    async with swe_rex_process(python()) as rex:
        with pytest.raises(Unavailable, match="has ended"):
            await rex.run(["false"])


async def test_an_interpreter_without_swe_rex_is_refused_before_anything_is_measured() -> None:
    # Without its packages it is sure to have none.
    bare = os.path.realpath(sys.executable)
    with pytest.raises(Invalid, match="no Python that has SWE-ReX"):
        find_swe_rex(bare)
    with pytest.raises(Invalid, match="no Python that has SWE-ReX"):
        find_swe_rex("/nowhere/python")
    async with swe_rex_process(bare) as rex:
        with pytest.raises(Unavailable, match="has ended"):
            await rex.run(["true"])
