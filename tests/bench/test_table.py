import datetime
from pathlib import Path

import pytest

from infra.settings import Durability
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import percentile
from services.cli.bench.table import Conditions, as_markdown, store

CONDITIONS = Conditions(
    when=datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC),
    kernel="6.1",
    cpus=2,
    load=3.64,
    python="3.11.7",
    durability=Durability.DISK,
    quick=False,
)


def figure(value: float, *, bare: float | None = None, aim: Aim | None = None) -> Figure:
    return Figure(what="a thing", value=value, unit="ms", bare=bare, beside="bare" if bare else "", aim=aim)


@pytest.mark.parametrize(
    ("measured", "met"),
    [
        (figure(9.9, aim=Aim(below=10)), True),
        (figure(10, aim=Aim(below=10)), False),
        (figure(6, bare=10, aim=Aim(ratio_from=0.6)), True),
        (figure(5.9, bare=10, aim=Aim(ratio_from=0.6)), False),
        (figure(6, aim=Aim(ratio_from=0.6)), False),
        (figure(2, bare=10, aim=Aim(ratio_below=0.2)), True),
        (figure(2.1, bare=10, aim=Aim(ratio_below=0.2)), False),
        (figure(2, aim=Aim(ratio_below=0.2)), False),
        (figure(6), None),
    ],
)
def test_an_aim_is_met_missed_or_not_there(measured: Figure, met: bool | None) -> None:
    assert measured.met is met


def test_a_figure_that_was_nothing_beside_it_has_no_ratio() -> None:
    assert figure(3, bare=0).ratio is None


def test_the_median_of_many_is_one_of_them_and_the_last_percentile_is_near_the_worst() -> None:
    values = [float(value) for value in range(1, 301)]
    assert percentile(values, 50) == 151
    assert percentile(values, 99) == 298
    assert percentile([7.0], 99) == 7
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 50)


def test_the_table_names_the_conditions_and_each_figure() -> None:
    text = as_markdown([figure(1234.5, bare=2, aim=Aim(below=10))], CONDITIONS)
    assert "2026-01-02 03:04 UTC, Linux 6.1, 2 CPUs (load 3.6 before), Python 3.11.7, durability `disk`\n" in text
    assert "| a thing | 1,234 ms | 2.00 ms (bare) | 617 × | < 10 ms | missed |" in text


def test_an_aim_says_what_it_is_of() -> None:
    assert Aim(below=10).text("ms") == "< 10 ms"
    assert Aim(ratio_from=0.6).text("ms") == "≥ 0.6 ×"
    assert Aim(ratio_below=0.2).text("ms") == "≤ 0.2 ×"


def test_the_spread_over_few_rounds_is_shown_beside_their_ratio() -> None:
    text = as_markdown([Figure(what="a thing", value=6, unit="MB/s", bare=10, ratios=(0.7, 0.5, 0.6))], CONDITIONS)
    assert "| 0.600 × (0.500–0.700) |" in text


def test_a_new_table_replaces_the_old_one_of_its_name_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "benchmarks.md"
    order = ["one", "two", "three"]
    store(page, {"three": "| third |\n", "one": "| first |\n"}, order)
    page.write_text(f"# Ours\n\nWords before.\n\n{page.read_text().split('write`.')[1].strip()}\n\nWords after.\n")
    store(page, {"two": "| second |\n", "one": "| first again |\n"}, order)
    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith(("###", "|"))] == [
        *("### one", "| first again |", "### two", "| second |", "### three", "| third |")
    ]
    assert text.startswith("# Ours\n\nWords before.\n")
    assert text.endswith("\n\nWords after.\n")


def test_the_table_of_a_benchmark_that_there_is_no_more_goes(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    store(page, {"one": "| first |\n", "two": "| second |\n"}, ["one", "two"])
    store(page, {}, ["two"])
    assert "first" not in page.read_text()
    assert "### two\n\n| second |\n" in page.read_text()
