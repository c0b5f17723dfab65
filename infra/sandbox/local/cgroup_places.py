"""Where on this node a sandbox's control group can be made."""

import os
from pathlib import Path
from typing import NamedTuple

from infra.sandbox.local.cgroup_v1 import CONTROLLERS, CgroupV1
from infra.sandbox.local.cgroup_v2 import CgroupV2
from infra.sandbox.local.cgroups import Cgroup, CgroupPlace, write_setting

WANTED_V2 = ("memory", "pids", "cpu")


class _Mount(NamedTuple):
    kind: str
    root: str
    point: Path
    options: frozenset[str]


def find_place(name: str) -> CgroupPlace | None:
    """Directories for a new group called `name`, beneath this process's own; None where nothing is writable.

    Prefers version 2 where it has the controllers. Makes no group; in version 2 it may hand controllers down.
    """
    own = _own_groups(Path("/proc/self/cgroup").read_text())
    mounts = _mounts(Path("/proc/self/mountinfo").read_text())
    return _place_v2(name, own, mounts) or _place_v1(name, own, mounts)


def open_cgroup(place: CgroupPlace) -> Cgroup:
    return CgroupV2(place.paths["unified"]) if place.version == 2 else CgroupV1(place.paths)


def _own_groups(text: str) -> dict[str, str]:
    """Path of this process's group by controller; version 2 under the empty name."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _mounts(text: str) -> list[_Mount]:
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in {"cgroup", "cgroup2"}:
            root, point = before.split()[3:5]
            found.append(_Mount(kind, root, Path(point), frozenset(options.split(","))))
    return found


def _place_v1(name: str, own: dict[str, str], mounts: list[_Mount]) -> CgroupPlace | None:
    paths = {}
    for mount in mounts:
        for controller in mount.options.intersection(CONTROLLERS) if mount.kind == "cgroup" else ():
            parent = _directory(mount, own.get(controller, "/"))
            if _is_writable(parent):
                paths[controller] = str(parent / name)
    return CgroupPlace(version=1, paths=paths) if paths else None


def _place_v2(name: str, own: dict[str, str], mounts: list[_Mount]) -> CgroupPlace | None:
    mount = next((mount for mount in mounts if mount.kind == "cgroup2"), None)
    if mount is None:
        return None
    # A group with processes of its own cannot hand controllers down, so try its parents as far as we may write.
    parent = _directory(mount, own.get("", "/"))
    for candidate in (parent, *parent.parents):
        if not candidate.is_relative_to(mount.point) or not _is_writable(candidate):
            return None
        if _hands_down(candidate):
            return CgroupPlace(version=2, paths={"unified": str(candidate / name)})
    return None


def _hands_down(group: Path) -> bool:
    available = (group / "cgroup.controllers").read_text().split()
    switch = group / "cgroup.subtree_control"
    for controller in WANTED_V2:
        if controller in available:
            write_setting(switch, f"+{controller}")
    return {"memory", "pids"} <= set(switch.read_text().split())


def _directory(mount: _Mount, path: str) -> Path:
    inside = path[len(mount.root) :] if mount.root != "/" and path.startswith(mount.root) else path
    return mount.point / inside.lstrip("/")


def _is_writable(group: Path) -> bool:
    return os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)
