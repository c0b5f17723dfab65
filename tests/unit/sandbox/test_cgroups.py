"""Control groups of both versions, on the real file systems of this machine."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.spec import Resources
from infra.sandbox.local.cgroup_places import find_place, open_cgroup
from infra.sandbox.local.cgroup_v2 import CgroupV2
from infra.sandbox.local.cgroups import Cgroup
from tests.conformance.inside import until

NAME = f"cloche-test-{os.getpid()}"


def joined_sleeper(group: Cgroup) -> "subprocess.Popen[bytes]":
    joins = "".join(f"echo 0 > {entrance}; " for entrance in group.entrances())
    process = subprocess.Popen(["/bin/sh", "-c", f"{joins} echo in; while :; do :; done"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"in\n"
    return process


def unified_mount() -> Path | None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind == "cgroup2" and os.access(point, os.W_OK):
            return Path(point)
    return None


@pytest.fixture(params=["here", "version 2"])
def group(request: pytest.FixtureRequest) -> Iterator[Cgroup]:
    if request.param == "here":
        place = find_place(NAME)
        found = None if place is None else open_cgroup(place)
    else:
        mount = unified_mount()
        found = None if mount is None else CgroupV2(str(mount / NAME))
    if found is None:
        pytest.skip("no writable control groups: the ordinary fallback is tested elsewhere")
    found.create(Resources())
    yield found
    assert found.remove()


async def test_a_frozen_group_stands_still_and_a_removed_one_was_empty(group: Cgroup) -> None:
    with joined_sleeper(group) as process:
        assert group.members() == {process.pid}
        assert not group.remove()
        assert group.freeze()
        await until(lambda: group.is_frozen() is True, "the group is frozen")
        group.thaw()
        await until(lambda: group.is_frozen() is False, "the group is thawed")
        process.kill()
    assert group.members() == set()


def test_orders_to_a_group_that_is_gone_do_no_harm(group: Cgroup) -> None:
    assert group.remove()
    assert group.remove()
    group.thaw()
    assert group.members() == set()
    assert group.is_frozen() is None
    assert group.usage().memory_bytes is None


def test_limits_are_really_in_the_kernel_where_they_are_claimed() -> None:
    place = find_place(NAME + "-limits")
    if place is None or place.version != 1:
        pytest.skip("reads the files of version 1")
    group = open_cgroup(place)
    held = group.create(Resources(memory_mb=512, cpus=0.5, pids=40))
    files = {
        held.memory: ("memory", "memory.limit_in_bytes", 512 << 20),
        held.cpus: ("cpu", "cpu.cfs_quota_us", 50_000),
        held.pids: ("pids", "pids.max", 40),
    }
    for claim, (controller, file, value) in files.items():
        if claim is not None:
            assert int((Path(place.paths[controller]) / file).read_text()) == value
    assert group.remove()
