"""Version 2: one hierarchy, with the controllers that the parent hands down."""

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

CPU_PERIOD_US = 100_000


class CgroupV2:
    def __init__(self, path: str) -> None:
        self._group = Path(path)

    def create(self, resources: Resources) -> Held:
        self._group.mkdir(exist_ok=True)
        memory = write_setting(self._group / "memory.max", str(resources.memory_mb << 20))
        if memory:
            # Absent where the kernel has no swap accounting; then there is nothing to close.
            write_setting(self._group / "memory.swap.max", "0")
        quota = f"{int(resources.cpus * CPU_PERIOD_US)} {CPU_PERIOD_US}"
        return Held(
            memory="cgroup v2 memory.max" if memory else None,
            cpus="cgroup v2 cpu.max" if write_setting(self._group / "cpu.max", quota) else None,
            pids="cgroup v2 pids.max" if write_setting(self._group / "pids.max", str(resources.pids)) else None,
        )

    def entrances(self) -> list[str]:
        return [str(self._group / "cgroup.procs")]

    def freeze(self) -> bool:
        return write_setting(self._group / "cgroup.freeze", "1")

    def thaw(self) -> None:
        write_setting(self._group / "cgroup.freeze", "0")

    def is_frozen(self) -> bool | None:
        frozen = read_table(self._group / "cgroup.events").get("frozen")
        return None if frozen is None else frozen == 1

    def usage(self) -> Usage:
        microseconds = read_table(self._group / "cpu.stat").get("usage_usec")
        return Usage(
            memory_bytes=read_number(self._group / "memory.current"),
            cpu_seconds=None if microseconds is None else microseconds / 1e6,
            pids=read_number(self._group / "pids.current"),
            oom_kills=read_table(self._group / "memory.events").get("oom_kill"),
        )

    def members(self) -> set[int]:
        return read_members(self._group / "cgroup.procs")

    def remove(self) -> bool:
        return remove_group(self._group)
