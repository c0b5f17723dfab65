"""What a running sandbox uses."""

import os
from typing import NamedTuple

from contracts.errors import SandboxStatsFailed
from infra.sandbox.base import Stats
from infra.sandbox.local.cgroup_places import open_cgroup
from infra.sandbox.local.cgroups import Usage
from infra.sandbox.local.layout import SandboxFiles
from infra.sandbox.local.processes import Identity, descendants, is_alive
from infra.sandbox.local.record import Record
from infra.sandbox.trees import measure_tree


def measure_sandbox(record: Record, files: SandboxFiles, identity: Identity) -> Stats:
    """From its control group where that counts, else from its processes.

    Raises `SandboxStatsFailed` when it ends meanwhile.
    """
    counted = Usage(None, None, None, None) if record.cgroup is None else open_cgroup(record.cgroup).usage()
    added = _from_processes(identity.pid)
    disk = measure_tree(files.workspace)
    if not is_alive(identity):
        raise SandboxStatsFailed(f"{record.sandbox} ended while it was measured")
    return Stats(
        memory_bytes=added.memory_bytes if counted.memory_bytes is None else counted.memory_bytes,
        cpu_seconds=added.cpu_seconds if counted.cpu_seconds is None else counted.cpu_seconds,
        pids=added.pids if counted.pids is None else counted.pids,
        disk=disk,
        oom_kills=counted.oom_kills,
    )


class _Added(NamedTuple):
    memory_bytes: int
    cpu_seconds: float
    pids: int


def _from_processes(init: int) -> _Added:
    found = descendants(init)
    ticks = sum(process.cpu_ticks for process in found)
    ticks += sum(process.dead_children_ticks for process in found)
    return _Added(
        memory_bytes=sum(process.resident_pages for process in found) * os.sysconf("SC_PAGE_SIZE"),
        cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"),
        pids=len(found),
    )
