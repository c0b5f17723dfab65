"""When this machine was started."""

import datetime
from pathlib import Path

STAT = Path("/proc/stat")


def booted_at() -> datetime.datetime:
    """To the second, by the wall clock of now."""
    for line in STAT.read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == "btime":
            return datetime.datetime.fromtimestamp(int(value), datetime.UTC)
    raise OSError(f"{STAT} has no btime")
