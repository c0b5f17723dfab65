"""The dashboard, the alerts and the page name figures that there are, and Prometheus takes them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.observing import catalogue
from infra.observing.figures import Counter, Histogram

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "infra" / "observability"
OTHERS = {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"}
WORD = re.compile(r"\b(?:cloche|process)_[a-z0-9_]+\b")


def shown() -> dict[str, set[str]]:
    """Every name as it is scraped, with its labels."""
    names: dict[str, set[str]] = {}
    for figure in catalogue.ALL:
        labels = set(figure.labels)
        if isinstance(figure, Histogram):
            names |= {f"{figure.name}_{part}": labels for part in ("bucket", "count", "sum")}
        else:
            names[f"{figure.name}_total" if isinstance(figure, Counter) else figure.name] = labels
    return names


def queries() -> list[str]:
    dashboard = json.loads((HERE / "dashboard.json").read_text())
    drawn = [each["expr"] for panel in dashboard["panels"] for each in panel.get("targets", [])]
    asked = [each["definition"] for each in dashboard["templating"]["list"] if "definition" in each]
    return drawn + asked + [rule["expr"] for rule in alerts()]


def alerts() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((HERE / "alerts.yml").read_text())
    found: list[dict[str, Any]] = loaded["groups"][0]["rules"]
    return found


@pytest.mark.parametrize("query", queries())
def test_every_query_asks_for_figures_that_there_are(query: str) -> None:
    asked = set(WORD.findall(query))
    assert asked or query.startswith("up{")
    assert asked <= shown().keys() | OTHERS


@pytest.mark.parametrize("query", queries())
def test_every_query_sorts_by_labels_that_its_figures_have(query: str) -> None:
    known = {"le", "instance"}.union(*(shown().get(name, set()) for name in WORD.findall(query)))
    for grouped in re.findall(r"by \(([^)]*)\)", query):
        assert {each.strip() for each in grouped.split(",")} <= known


def test_no_figure_has_a_label_that_its_target_has() -> None:
    """Prometheus would call it `exported_…`, and whoever sorts by it would be told of the target instead."""
    config = yaml.safe_load((HERE / "prometheus.yml").read_text())
    given = {"job", "instance"}
    for target in (each for job in config["scrape_configs"] for each in job["static_configs"]):
        given |= set(target.get("labels", {}))
    assert given > {"job", "instance"}
    assert {name: labels & given for name, labels in shown().items() if labels & given} == {}


def test_every_figure_is_on_the_dashboard() -> None:
    drawn = {name for query in queries() for name in WORD.findall(query)}
    missing = [
        figure.name
        for figure in catalogue.ALL
        if not drawn & {figure.name, f"{figure.name}_total", f"{figure.name}_bucket"}
    ]
    assert missing == []


def test_no_two_panels_lie_upon_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads((HERE / "dashboard.json").read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_whoever_is_woken_is_told_what_to_do(alert: dict[str, Any]) -> None:
    notes = alert["annotations"]
    assert notes["summary"]
    assert notes["action"]
    page, _, anchor = notes["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def promtool(*arguments: str) -> None:
    tool = shutil.which("promtool")
    assert tool is not None, "promtool is missing: apt-get install prometheus"
    ended = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False, cwd=HERE)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_prometheus_takes_the_alerts_and_the_example() -> None:
    promtool("check", "rules", "alerts.yml")
    promtool("check", "config", "--syntax-only", "prometheus.yml")


def test_alerts_come_when_they_should_and_only_then() -> None:
    promtool("test", "rules", "alerts_test.yml")


def test_every_alert_is_tried_when_it_comes_and_when_it_does_not() -> None:
    tests = yaml.safe_load((HERE / "alerts_test.yml").read_text())["tests"]
    tried = [each for test in tests for each in test["alert_rule_test"]]
    names = {alert["alert"] for alert in alerts()}
    assert {each["alertname"] for each in tried if each["exp_alerts"]} == names
    assert {each["alertname"] for each in tried if not each["exp_alerts"]} == names


def test_every_figure_is_in_the_table_of_the_page() -> None:
    text = (ROOT / "docs" / "observability.md").read_text()
    row = re.compile(r"^\| `(cloche_\w+)` \| (\w+) \| ([^|]*) \| (.+) \|$", re.MULTILINE)
    rows = {found[0]: found[1:] for found in row.findall(text)}
    expected = {
        f"{figure.name}_total" if isinstance(figure, Counter) else figure.name: (
            figure.kind,
            ", ".join(figure.labels) or "–",
            figure.words,
        )
        for figure in catalogue.ALL
    }
    assert rows == expected
