"""What a sandbox sent and received, by the kernel's own count."""

from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
RECEIVED, SENT = 0, 8


class NetworkUse(NamedTuple):
    in_bytes: int | None = None
    out_bytes: int | None = None


def network_use(pid: int) -> NetworkUse:
    """In the network namespace of that process, without its loopback; Nones where there is nothing else."""
    try:
        lines = (PROC / str(pid) / "net/dev").read_text().splitlines()[2:]
    except OSError:
        return NetworkUse()
    counted = [numbers.split() for name, _, numbers in (line.partition(":") for line in lines) if name.strip() != "lo"]
    if not counted:
        return NetworkUse()
    return NetworkUse(sum(int(each[RECEIVED]) for each in counted), sum(int(each[SENT]) for each in counted))
