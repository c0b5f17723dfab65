"""What `ps` and `top` say of a sandbox: its health, what it uses, and when nobody has looked for too long."""

import datetime
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from contracts.events.health import VitalsMetrics
from contracts.spec import SandboxSpec
from contracts.state import SandboxState, Status, fold
from infra.client.vitals import Vitals
from infra.words.escaping import last_lines, printable
from services.cli import columns, top
from services.cli.columns import fitting, table
from services.cli.measures import duration, percent, size, size_in_words
from services.cli.show import COLUMNS
from services.cli.use import Seen, as_json, seen
from tests.unit.histories import BEGAN, begun, history

NOW = BEGAN + datetime.timedelta(hours=1)
MB = 1024 * 1024


def state(name: str = "sb", **values: Any) -> SandboxState:
    folded = fold(history(*begun(values.pop("spec", SandboxSpec()))))
    assert folded is not None
    return replace(folded, **({"sandbox": name, "health": "healthy"} | values))


def vitals(age_s: float = 1.0, *, cpu: float = 12.5, memory: int = 100 * MB) -> Vitals:
    at = NOW - datetime.timedelta(seconds=age_s)
    metrics = VitalsMetrics(cpu_percent=cpu, memory_bytes=memory, processes=3, disk_bytes=5 * MB)
    return Vitals(beat_at=at, metrics=metrics, measured_at=at)


def look(known: SandboxState, found: Vitals | None) -> Seen:
    return seen(known, found, now=NOW, every_s=30.0)


def cells(row: Seen) -> dict[str, str]:
    return {column.title: column.cell(row) for column in COLUMNS}


def test_a_fresh_look_is_shown_with_what_it_may_use() -> None:
    row = look(state(), vitals())
    shown = cells(row)
    assert (shown["HEALTH"], shown["CPU"], shown["MEMORY"]) == ("healthy", "12%", "100M/4.0G")
    assert (shown["DISK"], shown["PROCS"], shown["SEEN"]) == ("5.0M", "3", "")
    use = as_json(row)["use"]
    assert (use["cpu_percent"], use["cpus"], use["memory_limit_bytes"]) == (12.5, 2.0, 4096 * MB)
    assert (use["age_s"], use["fresh"]) == (1.0, True)


def test_an_old_look_says_how_old_it_is_instead() -> None:
    row = look(state(), vitals(age_s=240))
    shown = cells(row)
    assert (shown["CPU"], shown["MEMORY"], shown["SEEN"]) == ("—", "—", "4m ago")
    assert as_json(row)["use"]["fresh"] is False


def test_one_that_was_never_looked_at_says_so_once_that_is_late() -> None:
    assert cells(look(state(), None))["SEEN"] == "never"
    assert cells(look(state(started_at=NOW), None))["SEEN"] == ""


def test_vitals_of_an_earlier_life_are_not_of_this_one() -> None:
    row = look(state(started_at=NOW), vitals(age_s=1))
    assert (row.use, row.seen_at) == (None, None)


@pytest.mark.parametrize(
    ("status", "told", "shown"),
    [
        (Status.RUNNING, "healthy", "healthy"),
        (Status.PAUSED, "unhealthy", "unhealthy"),
        (Status.RUNNING, "unknown", "—"),
        (Status.RUNNING, "died", "died"),
        (Status.STOPPED, "died", "died"),
        (Status.FAILED, "died", "died"),
        (Status.STOPPED, "healthy", "—"),
        (Status.REMOVED, "died", "—"),
    ],
)
def test_what_does_not_run_is_neither_well_nor_ill(status: Status, told: str, shown: str) -> None:
    row = look(state(status=status, health=told), vitals())
    assert row.health == shown
    assert (row.fresh_use is not None) == (status in (Status.RUNNING, Status.PAUSED) and told != "died")


def drawn(rows: list[Seen], width: int) -> list[str]:
    console = Console(width=1000, highlight=False)
    with console.capture() as captured:
        console.print(table(fitting(COLUMNS, rows, width), rows))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_a_table_fits_whatever_the_width_and_cuts_no_name(width: int) -> None:
    spec = SandboxSpec(task_id="a-task-of-some-length")
    rows = [look(state(f"sb-{number:027d}", spec=spec), vitals()) for number in range(3)]
    lines = drawn(rows, width)
    assert max(len(line) for line in lines) <= max(width, len("sb-") + 27 + 2 + 7 + 2 + 7)
    assert all(row.state.sandbox in line for row, line in zip(rows, lines[1:], strict=True))
    assert ("TASK" in lines[0]) == (width >= 200)


def test_health_memory_and_cpu_are_in_a_terminal_of_80_columns() -> None:
    lines = drawn([look(state("sb-" + "0" * 27), vitals())], 80)
    assert lines[0].split() == ["SANDBOX", "STATUS", "HEALTH", "CPU", "MEMORY", "DISK", "PROCS"]


def test_columns_that_nobody_has_anything_in_are_left_out() -> None:
    titles = [column.title for column in fitting(COLUMNS, [look(state(), vitals())], 1000)]
    assert "TASK" not in titles
    assert "SEEN" not in titles
    assert titles[:3] == ["SANDBOX", "STATUS", "HEALTH"]


def test_top_puts_what_uses_most_first_and_leaves_out_what_does_not_live() -> None:
    rows = [
        look(state("idle"), vitals(cpu=0.0, memory=300 * MB)),
        look(state("busy"), vitals(cpu=150.0, memory=200 * MB)),
        look(state("dark", started_at=NOW), None),
        look(state("ended", status=Status.STOPPED), vitals(cpu=900.0)),
        look(state("young", status=Status.CREATING), None),
    ]
    names = [row.state.sandbox for row in top.shown(rows, top.Sort.CPU)]
    assert names == ["busy", "idle", "dark", "young"]
    assert [row.state.sandbox for row in top.shown(rows, top.Sort.MEMORY)][:2] == ["idle", "busy"]
    told = top.as_json(rows, top.Sort.CPU, now=NOW)
    assert told["counts"] == {"running": 3, "stopped": 1, "creating": 1}
    assert [each["sandbox"] for each in told["sandboxes"]] == names


@pytest.mark.parametrize("height", [5, 10, 24])
def test_top_keeps_within_the_height_of_the_terminal(height: int) -> None:
    rows = [look(state(f"sb-{number}"), vitals()) for number in range(50)]
    console = Console(width=80, highlight=False)
    with console.capture() as captured:
        console.print(top.view(rows, top.Sort.CPU, now=NOW, width=80, height=height, connected=False))
    lines = captured.get().splitlines()
    assert len(lines) <= height
    assert "not connected" in lines[1]
    assert lines[-1] == f"… {50 - (height - 4)} more"


def test_nothing_is_shown_of_nobody() -> None:
    console = Console(width=80, highlight=False)
    with console.capture() as captured:
        console.print(top.view([], top.Sort.CPU, now=NOW, width=80))
    assert "no sandboxes" in captured.get()


def test_a_pipe_is_as_wide_as_it_takes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert columns.width_of_output() == columns.UNBOUNDED
    monkeypatch.setenv("COLUMNS", "77")
    assert columns.width_of_output() == 77


@pytest.mark.parametrize(
    ("count", "short", "words"),
    [
        (0, "0B", "0 bytes"),
        (999, "999B", "999 bytes"),
        (1000, "1.0K", "1 KiB"),
        (512 * MB, "512M", "512 MiB"),
        (1023 * MB, "1.0G", "1 GiB"),
        (4096 * MB, "4.0G", "4 GiB"),
        (12_288 * MB, "12G", "12 GiB"),
        (5e18, "4547474T", "4.54747e+06 TiB"),
    ],
)
def test_sizes_are_short(count: float, short: str, words: str) -> None:
    assert (size(count), size_in_words(count)) == (short, words)


def test_parts_and_durations_are_short() -> None:
    assert [percent(value) for value in (0, 3.14, 9.96, 150.4)] == ["0.0%", "3.1%", "10%", "150%"]
    assert [duration(ms) for ms in (500, 90_000, 60_000, 600_000, 3_600_000, 5_400_000)] == [
        "0.5 s", "90 s", "1 min", "10 min", "1 h", "1.5 h",
    ]  # fmt: skip


def test_what_could_move_a_cursor_is_spelled_out() -> None:
    assert printable("a\x1b[2J\u202eb\udcff") == "a\\x1b[2J\\u202eb\\udcff"
    assert printable("abcdef", 3) == "abc…"
    assert last_lines("one\r\n\n\ttwo\x07\nthree", 2, 10) == ["    two\\x07", "three"]
