"""Ending a sandbox so that surely nothing of it is left."""

import asyncio
import os
import signal
import time
from collections.abc import Callable

from contracts.errors import SandboxStopFailed
from infra.sandbox.local.cgroup_places import open_cgroup
from infra.sandbox.local.cgroups import Cgroup
from infra.sandbox.local.layout import SandboxFiles
from infra.sandbox.local.liveness import is_life_lock_held
from infra.sandbox.local.observing import find_by_hello, find_by_status
from infra.sandbox.local.processes import open_process, wait_until_gone
from infra.sandbox.local.record import Record

KILL_TIMEOUT_S = 10.0
POLL_S = 0.005


async def end_sandbox(record: Record, files: SandboxFiles, grace_s: float) -> None:
    """Returns when no process is left and the control groups are gone. Raises `SandboxStopFailed` otherwise."""
    if record.instance is None:
        return
    group = None if record.cgroup is None else open_cgroup(record.cgroup)
    await _end_init(record, record.instance, files, grace_s, group)
    if group is not None and not await _poll(lambda: _emptied(group)):
        raise SandboxStopFailed(f"processes of {record.sandbox} survive in its control group")
    if not await _poll(lambda: not is_life_lock_held(files.log)):
        raise SandboxStopFailed(f"something of {record.sandbox} is still alive")


async def _end_init(record: Record, instance: str, files: SandboxFiles, grace_s: float, group: Cgroup | None) -> None:
    identity = record.identity
    if identity is None:
        identity = await find_by_hello(instance, files) or await asyncio.to_thread(find_by_status, instance, files)
    pidfd = None if identity is None else await asyncio.to_thread(open_process, identity)
    if pidfd is None:
        return
    try:
        # Its PID namespace is empty before the first process counts as ended.
        if grace_s > 0 and await _signal_and_wait(pidfd, signal.SIGTERM, group, grace_s):
            return
        if not await _signal_and_wait(pidfd, signal.SIGKILL, group, KILL_TIMEOUT_S):
            raise SandboxStopFailed(f"{record.sandbox} does not end even when killed")
    finally:
        os.close(pidfd)


async def _signal_and_wait(pidfd: int, signum: signal.Signals, group: Cgroup | None, timeout: float) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, signum)
    except ProcessLookupError:
        return True
    if group is not None:
        # What is frozen does not even die.
        await asyncio.to_thread(group.thaw)
    return await wait_until_gone(pidfd, timeout)


def _emptied(group: Cgroup) -> bool:
    group.thaw()
    for pid in group.members():
        _kill_member(group, pid)
    return group.remove()


def _kill_member(group: Cgroup, pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Looked up again with the descriptor held: the number cannot have gone to somebody else.
        if pid in group.members():
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)


async def _poll(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True
