"""The dashboard, built, and the tools of its own tests: there where node is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from services.dashboard.build import HERE, ensure_built

AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"
INSTALL_S = 600

needs_node = pytest.mark.skipif(
    shutil.which("npm") is None and not os.environ.get("CLOCHE_REQUIRE_BROWSER"), reason="node is not installed"
)


def installed() -> Path:
    """With the tools for tests, as the lock file says."""
    if not AXE.is_file():
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts"], cwd=HERE, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        assert done.returncode == 0, done.stderr
    return HERE


def built() -> Path:
    said: list[str] = []
    assert ensure_built(said.append), said
    return HERE / "dist"


def main() -> None:
    """Before any test: two that install at the same time would take each other's files away."""
    if shutil.which("npm") is None and not os.environ.get("CLOCHE_REQUIRE_BROWSER"):
        print("the dashboard: node is not installed, so it is not tested", file=sys.stderr)
        return
    installed()
    built()


def run(*line: str) -> None:
    done = subprocess.run(["npx", "--no-install", *line], cwd=installed(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


if __name__ == "__main__":
    main()
