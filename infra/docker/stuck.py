"""Freeing an engine that waits for somebody inside a container.

A new process of a container is the runtime's for a moment, under the container's own user. A neighbour may stop it
there, or a pause may freeze it: the engine then waits with the container's lock held, and the container can neither be
looked at nor removed. What is done about it needs rights on the host; without them nothing is.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
STUCK_S = 3.0
"""Longer than the engine needs for anything, even on a busy machine."""


@asynccontextmanager
async def freeing(container: str | None, *, thaw: bool = False) -> AsyncIterator[None]:
    """Around what asks the engine about one container: while that takes long, the engine is helped."""
    helping = asyncio.create_task(_help(container, thaw=thaw))
    try:
        yield
    finally:
        # Not awaited: a cancellation here would lose what was got within.
        helping.cancel()


async def _help(container: str | None, *, thaw: bool) -> None:
    while container:
        await asyncio.sleep(STUCK_S)
        await asyncio.to_thread(free, container, thaw=thaw)


def free(container: str, *, thaw: bool = False) -> int:
    """Kills the runtime's processes in the container that somebody has stopped. How many. `thaw`: a pause ends too."""
    killed = 0
    if thaw:
        set_frozen(container, frozen=False)
    for pid in _members(container):
        killed += _kill_unborn(pid)
    return killed


def set_frozen(container: str, *, frozen: bool) -> None:
    """What a pause and its end do, without the engine, which does not notice."""
    for pid in _members(container)[:1]:
        _set_frozen(pid, frozen=frozen)


def is_beginning(container: str) -> bool:
    """Whether the runtime is about to start a process in the container, or has one there that is still its own."""
    return any(_is_exec(pid, container.encode()) for pid in _pids()) or any(
        _is_runtime(pid) for pid in _members(container)
    )


def _is_exec(pid: int, container: bytes) -> bool:
    words = _read(pid, "cmdline").split(b"\0")
    return container in words and b"exec" in words


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _members(container: str) -> list[int]:
    return [pid for pid in _pids() if container.encode() in _read(pid, "cgroup")]


def _kill_unborn(pid: int) -> bool:
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            # Looked at with the handle held: the number cannot have gone to somebody else.
            if _is_stopped_runtime(pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def _is_stopped_runtime(pid: int) -> bool:
    state = _read(pid, "stat").rpartition(b")")[2].split()
    return state[:1] == [b"T"] and _is_runtime(pid)


def _is_runtime(pid: int) -> bool:
    return _read(pid, "cmdline").split(b"\0")[1:2] == [b"init"]


def _set_frozen(pid: int, *, frozen: bool) -> None:
    for line in _read(pid, "cgroup").decode(errors="replace").splitlines():
        _, controllers, path = line.split(":", 2)
        if "freezer" in controllers.split(","):
            _write(CGROUPS / "freezer" / path.lstrip("/") / "freezer.state", "FROZEN" if frozen else "THAWED")
        elif controllers == "":
            _write(CGROUPS / path.lstrip("/") / "cgroup.freeze", "1" if frozen else "0")


def _read(pid: int, name: str) -> bytes:
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _write(path: Path, text: str) -> None:
    with suppress(OSError):
        path.write_text(text)
