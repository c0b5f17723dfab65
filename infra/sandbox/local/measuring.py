"""What a running sandbox uses."""

import os
from typing import NamedTuple

from contracts.errors import SandboxStatsFailed
from infra.sandbox.base import Stats, Use
from infra.sandbox.local.cgroup_places import open_cgroup
from infra.sandbox.local.cgroups import Usage
from infra.sandbox.local.layout import SandboxFiles
from infra.sandbox.local.processes import Identity, descendants, is_alive
from infra.sandbox.local.record import Record
from infra.sandbox.network_use import network_use
from infra.sandbox.trees import measure_tree


def measure_sandbox(record: Record, files: SandboxFiles, identity: Identity) -> Stats:
    """From its control group where that counts, else from its processes.

    Raises `SandboxStatsFailed` when it ends meanwhile.
    """
    counted = _counted(record)
    used = _whole(counted, identity.pid)
    disk = measure_tree(files.workspace)
    if not is_alive(identity):
        raise SandboxStatsFailed(f"{record.sandbox} ended while it was measured")
    return Stats(
        memory_bytes=used.memory_bytes,
        cpu_seconds=used.cpu_seconds,
        pids=used.pids,
        disk=disk,
        oom_kills=counted.oom_kills,
    )


def measure_use(record: Record, init: int) -> Use:
    """The same without the disk. Of one that has just ended, little or nothing."""
    used = _whole(_counted(record), init)
    network = network_use(init)
    return Use(
        memory_bytes=used.memory_bytes,
        cpu_seconds=used.cpu_seconds,
        pids=used.pids,
        network_in_bytes=network.in_bytes,
        network_out_bytes=network.out_bytes,
    )


def _counted(record: Record) -> Usage:
    return Usage(None, None, None, None) if record.cgroup is None else open_cgroup(record.cgroup).usage()


def _whole(counted: Usage, init: int) -> "_Added":
    if counted.memory_bytes is not None and counted.cpu_seconds is not None and counted.pids is not None:
        return _Added(counted.memory_bytes, counted.cpu_seconds, counted.pids)
    added = _from_processes(init)
    return _Added(
        memory_bytes=added.memory_bytes if counted.memory_bytes is None else counted.memory_bytes,
        cpu_seconds=added.cpu_seconds if counted.cpu_seconds is None else counted.cpu_seconds,
        pids=added.pids if counted.pids is None else counted.pids,
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
