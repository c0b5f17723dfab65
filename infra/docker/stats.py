"""What a container uses, on either version of control groups."""

from pathlib import Path

from msgspec import Struct

from infra.docker.engine import ASK_S, Engine
from infra.docker.errors import asking

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


class _Cpu(Struct, frozen=True, kw_only=True):
    total_usage: int = 0
    """Nanoseconds."""


class _CpuStats(Struct, frozen=True, kw_only=True):
    cpu_usage: _Cpu = _Cpu()


class _MemoryStats(Struct, frozen=True, kw_only=True):
    usage: int = 0
    stats: dict[str, int] | None = None


class _PidsStats(Struct, frozen=True, kw_only=True):
    current: int = 0


class ContainerStats(Struct, frozen=True, kw_only=True):
    cpu_stats: _CpuStats = _CpuStats()
    memory_stats: _MemoryStats = _MemoryStats()
    pids_stats: _PidsStats = _PidsStats()

    @property
    def cpu_seconds(self) -> float:
        return self.cpu_stats.cpu_usage.total_usage / 1e9

    @property
    def memory_bytes(self) -> int:
        """Without the page cache, which goes when memory is short. Files of a tmpfs cannot, and count."""
        counted = self.memory_stats.stats or {}
        prefix = "total_" if "total_inactive_file" in counted else ""
        cache = counted.get(f"{prefix}inactive_file", 0) + counted.get(f"{prefix}active_file", 0)
        return max(self.memory_stats.usage - cache, 0)

    @property
    def pids(self) -> int:
        return self.pids_stats.current


async def container_stats(engine: Engine, container: str) -> ContainerStats:
    """At once: without `one-shot` the engine takes a second to compare two samples. Zeros when it does not run."""
    async with asking(f"measure container {container[:12]}", ASK_S):
        params = {"stream": "0", "one-shot": "1"}
        return await engine.get(f"containers/{container}/stats", ContainerStats, **params)


def oom_kills(pid: int) -> int | None:
    """From the control group of that process of this machine; None where it cannot be read."""
    try:
        lines = (PROC / str(pid) / "cgroup").read_text().splitlines()
        groups = {line.split(":", 2)[1]: line.split(":", 2)[2].lstrip("/") for line in lines}
        counted = _counters(CGROUPS, groups)
    except (OSError, ValueError):
        return None
    return counted.get("oom_kill")


def _counters(root: Path, groups: dict[str, str]) -> dict[str, int]:
    if "memory" in groups:
        path = root / "memory" / groups["memory"] / "memory.oom_control"
    else:
        path = root / groups.get("", "") / "memory.events"
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}
