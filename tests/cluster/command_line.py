"""`cloche` as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def cloche(data: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
    """With nothing of our own environment that speaks of Cloche."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
    ran = subprocess.run(
        [sys.executable, "-m", "services.cli", *arguments],
        env={**surroundings, "CLOCHE_DATA": str(data), **(env or {})},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)
