"""Host processes, told apart by more than their number: a pid is used again, its start time with it is not."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

PROC = Path("/proc")


class Identity(Struct, frozen=True, kw_only=True):
    boot_id: str
    pid: int
    started: int
    """Clock ticks after boot, from /proc/<pid>/stat."""


class Process(NamedTuple):
    pid: int
    parent: int
    state: str
    started: int
    cpu_ticks: int
    dead_children_ticks: int
    resident_pages: int


def boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def read_process(pid: int) -> Process | None:
    """None when there is no such process."""
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in parentheses and may hold anything, also parentheses.
    field = stat[stat.rindex(b")") + 2 :].split()
    return Process(
        pid=pid,
        state=field[0].decode(),
        parent=int(field[1]),
        cpu_ticks=int(field[11]) + int(field[12]),
        dead_children_ticks=int(field[13]) + int(field[14]),
        started=int(field[19]),
        resident_pages=int(field[21]),
    )


def identify(pid: int) -> Identity | None:
    process = read_process(pid)
    if process is None or process.state in "ZX":
        return None
    return Identity(boot_id=boot_id(), pid=pid, started=process.started)


def is_alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


def open_process(identity: Identity) -> int | None:
    """A pidfd that surely means this process, or None when it is gone."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    if is_alive(identity):
        return pidfd
    os.close(pidfd)
    return None


async def wait_until_gone(pidfd: int, timeout: float) -> bool:
    """True once the process has ended; False after `timeout` seconds."""
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(pidfd, gone.set)
    try:
        async with asyncio.timeout(timeout):
            await gone.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)
    return True


def descendants(root: int) -> list[Process]:
    """The process and everything below it. In a PID namespace, orphans fall to its first process: none is missed.

    One that comes or goes meanwhile may be missed. Costs in proportion to what is found, where the kernel can tell.
    """
    first = read_process(root)
    found = [] if first is None else [first]
    children = _told_children if (PROC / str(root) / f"task/{root}/children").exists() else _all_children()
    for process in found:
        found.extend(children(process.pid))
    return found


def _told_children(pid: int) -> list[Process]:
    """By the kernel, for each thread of the process."""
    numbers: list[int] = []
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            numbers += [int(number) for number in (task / "children").read_text().split()]
    except OSError:
        return []
    return [process for number in numbers if (process := read_process(number)) is not None]


def _all_children() -> Callable[[int], list[Process]]:
    """Of every process of the machine, looked up once."""
    children: dict[int, list[Process]] = {}
    for entry in PROC.iterdir():
        process = read_process(int(entry.name)) if entry.name.isdigit() else None
        if process is not None:
            children.setdefault(process.parent, []).append(process)
    return lambda pid: children.get(pid, [])
