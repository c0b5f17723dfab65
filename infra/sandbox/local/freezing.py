"""Stopping the clock of a whole sandbox."""

import asyncio
import time

from contracts.errors import SandboxInvalidState
from infra.sandbox.local.cgroup_places import open_cgroup
from infra.sandbox.local.cgroups import Cgroup, CgroupPlace

FREEZE_TIMEOUT_S = 10.0
POLL_S = 0.002


def freezer(place: CgroupPlace | None) -> Cgroup | None:
    """The group that can freeze the sandbox; None where only its init can stop its processes."""
    if place is None:
        return None
    group = open_cgroup(place)
    return None if group.is_frozen() is None else group


async def freeze(group: Cgroup) -> None:
    """Returns when everything stands still. Raises `SandboxInvalidState`, thawed again, when something does not."""
    deadline = time.monotonic() + FREEZE_TIMEOUT_S
    await asyncio.to_thread(group.freeze)
    while not await asyncio.to_thread(group.is_frozen):
        if time.monotonic() > deadline:
            await asyncio.to_thread(group.thaw)
            raise SandboxInvalidState(f"not frozen within {FREEZE_TIMEOUT_S:.0f} s: a process hangs in the kernel")
        await asyncio.sleep(POLL_S)
