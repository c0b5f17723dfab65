"""Every check of the project, the same for a person and for CI."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 4
"""More than a small machine has cores: most tests wait for processes, not for the CPU."""


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
        Check(
            "tests",
            (
                *(sys.executable, "-m", "pytest", "-q", "-n", str(WORKERS), "--dist", "loadfile"),
                # The tests know which files take longest; that is not always where there are most of them.
                "--no-loadscope-reorder",
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
        code = subprocess.run(check.argv, cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""}, check=False)
        if code.returncode != 0:
            console.print(f"[red]{check.name} failed[/red]")
            return code.returncode
    return 0
