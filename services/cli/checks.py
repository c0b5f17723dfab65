"""Every check of the project, the same for a person and for CI."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 4
"""More than a small machine has cores: most tests wait for processes, not for the CPU."""
MOST_AGAIN = 5
"""Failed tests that are looked at a second time. More than that is no accident."""
FAILED_TESTS = 1
"""The exit code of pytest where tests failed and nothing else was wrong."""


class Check(NamedTuple):
    name: str
    argv: tuple[str, ...]


def checks(pytest_arguments: tuple[str, ...]) -> tuple[Check, ...]:
    """Cheap ones first; pytest last, so that its closing line ends the run."""
    tools = Path(sys.executable).parent
    return (
        Check("format", (str(tools / "ruff"), "format", "--check", ".")),
        Check("lint", (str(tools / "ruff"), "check", ".")),
        Check("types", (str(tools / "mypy"),)),
        Check("imports", (str(tools / "lint-imports"), "--no-logo")),
        Check("schema", (sys.executable, "-m", "services.cli", "schema", "--check")),
        # Made by whichever test comes first they would take longer than a test may.
        Check("images", (sys.executable, "-m", "tests.images")),
        Check("dashboard", (sys.executable, "-m", "tests.dashboard.tools")),
        Check(
            "tests",
            (
                *(sys.executable, "-m", "pytest", "-q", "-n", str(WORKERS), "--dist", "loadfile"),
                # The tests know which files take longest; that is not always where there are most of them.
                *("--no-loadscope-reorder", "--cache-clear"),
                *pytest_arguments,
            ),
        ),
    )


def run_checks(pytest_arguments: tuple[str, ...]) -> int:
    """0 when everything passes; stops at the first check that does not, with its exit code."""
    if not (ROOT / "tests").is_dir():
        Console(stderr=True).print("`cloche test` runs in a checkout of the project, and this is an installed copy")
        return 2
    console = Console(stderr=True)
    for check in checks(pytest_arguments):
        console.print(f"[bold]{check.name}[/bold]")
        code = _run(check.argv)
        if check.name == "tests" and code == FAILED_TESTS:
            code = _look_again(console)
        if code != 0:
            console.print(f"[red]{check.name} failed[/red]")
            return code
    return 0


def _run(argv: tuple[str, ...]) -> int:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    return subprocess.run(argv, cwd=ROOT, env=environment, check=False).returncode


def _look_again(console: Console) -> int:
    """A few that failed beside all the others are run once more, alone. What passes then is told as unsteady: it hides
    a race, in the test or in what it tests.
    """
    noted = ROOT / ".pytest_cache/v/cache/lastfailed"
    # A run that was interrupted has noted none, nor has one that leaves something behind.
    failed = sorted(json.loads(noted.read_text())) if noted.exists() else []
    if not 0 < len(failed) <= MOST_AGAIN:
        return FAILED_TESTS
    console.print("[bold]tests that failed, alone[/bold]")
    code = _run((sys.executable, "-m", "pytest", "-q", "--last-failed", "--last-failed-no-failures", "none"))
    if code == 0:
        console.print("unsteady, to be mended:", *failed, sep="\n  ", markup=False)
    return code
