"""`cloche` as a process of its own."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.cli.command_line import CommandLine


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def cloche(data: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
    """With nothing of our own environment that speaks of Cloche."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
    with CommandLine(arguments, {**surroundings, "CLOCHE_DATA": str(data), **(env or {})}) as line:
        out, err = line.communicate()
        return Ran(line.wait(), out.decode(), err.decode())
