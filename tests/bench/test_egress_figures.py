"""The proxy is measured beside others, alone and as a sandbox has it."""

from pathlib import Path

import pytest
from rich.progress import Progress

from services.cli.bench.egress import DIRECT, egress
from services.cli.bench.other_proxies import installed
from services.cli.bench.rig import running_node
from tests.bench.tiny import TINY

# The node is left to itself on purpose: it must not end with whoever started it.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


async def test_the_proxy_is_measured_beside_none_and_beside_those_that_are_installed(tmp_path: Path) -> None:
    async with running_node(tmp_path / "node", Progress(disable=True)) as rig:
        figures = await egress(rig, TINY)
    assert all(figure.value > 0 for figure in figures if figure.unit != "MB")
    downloads = [figure for figure in figures if "download" in figure.what and figure.beside == DIRECT]
    assert [figure.what.rpartition("MB ")[2] for figure in downloads] == ["by the proxy alone", "from a sandbox"]
    assert {figure.beside for figure in figures} >= {DIRECT, *installed()}
    rates = [figure for figure in figures if figure.unit in ("/s", "MB/s")]
    assert sum(figure.aim is not None for figure in rates) == (6 if installed() else 0)
