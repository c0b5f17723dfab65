"""What a container uses: by the engine, or from the kernel's own files, so that the engine need not be asked."""

from pathlib import Path

from contracts.errors import SandboxStatsFailed
from contracts.ids import SandboxId
from infra.docker.engine import Engine
from infra.docker.errors import Refused
from infra.docker.stats import ContainerStats, container_stats
from infra.sandbox.base import Use
from infra.sandbox.network_use import network_use

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
UNIFIED = ""


async def measure_container(engine: Engine, sandbox: SandboxId, container: str) -> ContainerStats:
    """Raises `SandboxStatsFailed` with the engine's words, `Unavailable`."""
    try:
        return await container_stats(engine, container)
    except Refused as error:
        raise SandboxStatsFailed(f"cannot measure {sandbox}: {error.message}") from error


def group_use(pid: int) -> Use | None:
    """Of everything in the control groups of that process of this machine; None where they cannot be read."""
    try:
        places = _places(pid)
        use = _unified(places[UNIFIED]) if "memory" not in places else _separate(places)
    except (OSError, ValueError, KeyError):
        return None
    network = network_use(pid)
    return Use(
        memory_bytes=max(use.memory_bytes, 0),
        cpu_seconds=use.cpu_seconds,
        pids=use.pids,
        network_in_bytes=network.in_bytes,
        network_out_bytes=network.out_bytes,
    )


def _places(pid: int) -> dict[str, Path]:
    """Directories by controller; in version 2 there is one, with no name."""
    places: dict[str, Path] = {}
    for line in (PROC / str(pid) / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            places[controller] = CGROUPS / controllers / path.lstrip("/")
    return places


def _separate(places: dict[str, Path]) -> Use:
    table = _table(places["memory"] / "memory.stat")
    cache = table.get("total_inactive_file", 0) + table.get("total_active_file", 0)
    return Use(
        memory_bytes=_number(places["memory"] / "memory.usage_in_bytes") - cache,
        cpu_seconds=_number(places["cpuacct"] / "cpuacct.usage") / 1e9,
        pids=_number(places["pids"] / "pids.current"),
    )


def _unified(place: Path) -> Use:
    table = _table(place / "memory.stat")
    cache = table.get("inactive_file", 0) + table.get("active_file", 0)
    return Use(
        memory_bytes=_number(place / "memory.current") - cache,
        cpu_seconds=_table(place / "cpu.stat")["usage_usec"] / 1e6,
        pids=_number(place / "pids.current"),
    )


def _number(path: Path) -> int:
    return int(path.read_text())


def _table(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}
