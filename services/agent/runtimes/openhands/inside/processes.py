"""Processes that tools have started."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PR_SET_CHILD_SUBREAPER = 36
KILLING_FOR_S = 5.0
KILL_AGAIN_S = 0.005


class Seen(NamedTuple):
    pid: int
    parent: int
    state: str
    began: str


class Processes:
    """Those that tools have started: all that descends from here, also what has cut itself loose."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._before: set[tuple[int, str]] = set()

    def mark(self) -> None:
        """What runs now was left running on purpose, by earlier calls."""
        self._before = {(each.pid, each.began) for each in _descendants()}

    def kill(self, spared: set[int]) -> int:
        """All that began since the mark; returns how many there were. Blocks until they are gone."""
        killed: set[int] = set()
        until = time.monotonic() + KILLING_FOR_S
        while (found := self._since_mark() - spared) and time.monotonic() < until:
            killed |= found
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(KILL_AGAIN_S)
        return len(killed)

    def _since_mark(self) -> set[int]:
        alive = (each for each in _descendants() if each.state != "Z")
        return {each.pid for each in alive if (each.pid, each.began) not in self._before}

    def kill_all(self) -> None:
        self._before = set()
        self.kill(set())

    def reap(self) -> None:
        """Ended orphans that fell to us. Only while no tool runs: the others wait for their own."""
        for each in _descendants():
            if each.parent == os.getpid() and each.state == "Z":
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(each.pid, os.WNOHANG)


def _descendants() -> list[Seen]:
    children: dict[int, list[Seen]] = collections.defaultdict(list)
    for each in _processes():
        children[each.parent].append(each)
    found, left = [], [os.getpid()]
    while left:
        for each in children[left.pop()]:
            found.append(each)
            left.append(each.pid)
    return found


def _processes() -> Iterator[Seen]:
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            fields = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        yield Seen(int(place.name), int(fields[1]), fields[0], fields[19])
