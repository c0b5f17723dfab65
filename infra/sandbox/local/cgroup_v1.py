"""Version 1: one hierarchy per controller."""

from pathlib import Path

from contracts.spec import Resources
from infra.sandbox.local.cgroups import (
    Held,
    Usage,
    read_members,
    read_number,
    read_table,
    remove_group,
    write_setting,
)

CONTROLLERS = ("memory", "cpu", "cpuacct", "pids", "freezer")
CPU_PERIOD_US = 100_000


class CgroupV1:
    def __init__(self, paths: dict[str, str]) -> None:
        self._paths = {controller: Path(path) for controller, path in paths.items()}

    def create(self, resources: Resources) -> Held:
        for path in self._paths.values():
            path.mkdir(exist_ok=True)
        return Held(
            memory=self._limit_memory(resources.memory_mb),
            cpus=self._limit_cpus(resources.cpus),
            pids=self._limit_pids(resources.pids),
        )

    def _limit_memory(self, megabytes: int) -> str | None:
        group = self._paths.get("memory")
        if group is None or not write_setting(group / "memory.limit_in_bytes", str(megabytes << 20)):
            return None
        with_swap = group / "memory.memsw.limit_in_bytes"
        if with_swap.exists() and write_setting(with_swap, str(megabytes << 20)):
            return "cgroup v1 memory.limit_in_bytes and memory.memsw.limit_in_bytes"
        return "cgroup v1 memory.limit_in_bytes"

    def _limit_cpus(self, cpus: float) -> str | None:
        group = self._paths.get("cpu")
        if group is None or not write_setting(group / "cpu.cfs_period_us", str(CPU_PERIOD_US)):
            return None
        held = write_setting(group / "cpu.cfs_quota_us", str(int(cpus * CPU_PERIOD_US)))
        return "cgroup v1 cpu.cfs_quota_us" if held else None

    def _limit_pids(self, pids: int) -> str | None:
        group = self._paths.get("pids")
        held = group is not None and write_setting(group / "pids.max", str(pids))
        return "cgroup v1 pids.max" if held else None

    def entrances(self) -> list[str]:
        return sorted({str(path / "cgroup.procs") for path in self._paths.values()})

    def freeze(self) -> bool:
        group = self._paths.get("freezer")
        return group is not None and write_setting(group / "freezer.state", "FROZEN")

    def thaw(self) -> None:
        if group := self._paths.get("freezer"):
            write_setting(group / "freezer.state", "THAWED")

    def is_frozen(self) -> bool | None:
        group = self._paths.get("freezer")
        if group is None:
            return None
        try:
            return (group / "freezer.state").read_text().strip() == "FROZEN"
        except OSError:
            return None

    def usage(self) -> Usage:
        nanoseconds = self._number("cpuacct", "cpuacct.usage")
        memory = self._paths.get("memory")
        return Usage(
            memory_bytes=self._number("memory", "memory.usage_in_bytes"),
            cpu_seconds=None if nanoseconds is None else nanoseconds / 1e9,
            pids=self._number("pids", "pids.current"),
            oom_kills=None if memory is None else read_table(memory / "memory.oom_control").get("oom_kill"),
        )

    def _number(self, controller: str, file: str) -> int | None:
        group = self._paths.get(controller)
        return None if group is None else read_number(group / file)

    def members(self) -> set[int]:
        return set().union(*(read_members(path / "cgroup.procs") for path in self._paths.values()))

    def remove(self) -> bool:
        left = [path for path in self._paths.values() if not remove_group(path)]
        return not left
