"""Limits that hold without a control group, and an honest account of what holds."""

import os
import resource
import secrets

from contracts.spec import NetworkMode, Resources, SandboxSpec
from infra.sandbox.base import Enforcement
from infra.sandbox.local.cgroup_places import find_place, open_cgroup
from infra.sandbox.local.cgroups import CgroupPlace, Held

OPEN_FILES = 65_536
NOT_ENFORCED = "not enforced"


def launch_rlimits(resources: Resources, held: Held) -> dict[str, int]:
    """Set before bubblewrap starts. `RLIMIT_NPROC` is not among them: see `process_limit`."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = OPEN_FILES if most_files == resource.RLIM_INFINITY else min(OPEN_FILES, most_files)
    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": resources.disk_mb << 20, "RLIMIT_NOFILE": files}
    if held.memory is None:
        limits["RLIMIT_DATA"] = resources.memory_mb << 20
    return {name: _at_most_hard(name, value) for name, value in limits.items()}


def _at_most_hard(name: str, value: int) -> int:
    _, hard = resource.getrlimit(getattr(resource, name))
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def process_limit(resources: Resources, held: Held) -> int | None:
    """`RLIMIT_NPROC` for a running init; None where a group holds the limit or the kernel counts per user.

    It must be set once init is up: at the making of the user namespace it would count the host user's processes.
    """
    return resources.pids if held.pids is None and _counts_per_namespace() else None


def _counts_per_namespace() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(filter(str.isdigit, minor)))) >= (5, 14)


def enforcement(resources: Resources, held: Held, network: NetworkMode) -> Enforcement:
    by_count = "RLIMIT_NPROC in an own user namespace" if process_limit(resources, held) else NOT_ENFORCED
    return Enforcement(
        memory=held.memory or "RLIMIT_DATA per process",
        cpus=held.cpus or NOT_ENFORCED,
        pids=held.pids or by_count,
        disk="watched every few seconds; RLIMIT_FSIZE per file",
        timeout="watched",
        network="loopback only; out by name only, through egress"
        if network is NetworkMode.RESTRICTED
        else "loopback only",
    )


def hold_by_group(place: CgroupPlace | None, resources: Resources) -> Held:
    """Make the group and set its limits; doing it again changes nothing."""
    return Held() if place is None else open_cgroup(place).create(resources)


def foresee_enforcement(spec: SandboxSpec) -> Enforcement:
    """What will hold, found out by making such a group for a moment."""
    place = find_place(f"cloche-trial-{secrets.token_hex(8)}")
    held = hold_by_group(place, spec.resources)
    if place is not None:
        open_cgroup(place).remove()
    return enforcement(spec.resources, held, spec.network.mode)
