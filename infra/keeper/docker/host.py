"""Signals to a command's processes from the host, for containers without a shell, or without room for one more process.

Only where the engine's processes are ours to see: each is checked to be of the container before it gets anything.
"""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from infra.keeper.docker.shell import MARKER
from infra.keeper.protocol import Scope


class _Process(NamedTuple):
    pid: int
    parent: int
    group: int
    session: int
    carries: bool


def signal_from_host(container: str, pids: Iterable[int], exec_id: str, main: int, signum: int, scope: Scope) -> int:
    """How many got it: 0 where we may not, or cannot see them. `main` as the host counts; 0 = not known."""
    if scope != "tree" and not main:
        return 0
    if scope == "main":
        return _send(container, main, signum)
    table = [process for pid in pids if (process := _look(container, pid, exec_id)) is not None]
    spared = {main} if scope == "rest" else set()
    return sum(_send(container, pid, signum) for pid in sorted(_tree(table, main) - spared))


def _tree(table: list[_Process], main: int) -> set[int]:
    found = {each.pid for each in table if each.carries or (main and main in (each.pid, each.group, each.session))}
    while True:
        new = {
            each.pid
            for each in table
            if each.pid not in found and not found.isdisjoint((each.parent, each.group, each.session))
        }
        if not new:
            return found
        found |= new


def _look(container: str, pid: int, exec_id: str) -> _Process | None:
    if not _is_of(container, pid):
        return None
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if len(fields) < 18 or (fields[0] in (b"Z", b"X") and int(fields[17]) <= 1):
        return None
    marker = f"{MARKER}={exec_id}".encode()
    parent, group, session = map(int, fields[1:4])
    return _Process(pid, parent, group, session, marker in _read(pid, "environ").split(b"\0"))


def _send(container: str, pid: int, signum: int) -> int:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return 0
    try:
        # Looked at with the handle held: the number cannot have gone to somebody else.
        if not _is_of(container, pid):
            return 0
        signal.pidfd_send_signal(handle, signum)
    except OSError:
        return 0
    finally:
        os.close(handle)
    return 1


def _is_of(container: str, pid: int) -> bool:
    return container.encode() in _read(pid, "cgroup")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
