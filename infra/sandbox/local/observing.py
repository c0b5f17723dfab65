"""What is really there: by identity, never by guess."""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from contracts.errors import Unavailable
from infra.sandbox.base import End, Inspection, SandboxState
from infra.sandbox.ends import end_by_code
from infra.sandbox.local.cgroup_places import open_cgroup
from infra.sandbox.local.cgroups import CgroupPlace
from infra.sandbox.local.control import InitConnection
from infra.sandbox.local.layout import SandboxFiles
from infra.sandbox.local.liveness import is_life_lock_held
from infra.sandbox.local.processes import PROC, Identity, identify, is_alive
from infra.sandbox.local.record import Record

HELLO_TIMEOUT_S = 5.0
NOTED_S = 5.0
POLL_S = 0.005
STATUS_WORDS = "the exit status that bubblewrap notes: there is none"


class Observation(NamedTuple):
    inspection: Inspection
    identity: Identity | None = None
    """Of the init, as long as it is alive."""


async def observe(record: Record, files: SandboxFiles) -> Observation:
    if not record.ready:
        return _seen(record, SandboxState.CREATING)
    if record.instance is None:
        return _seen(record, SandboxState.STOPPED)
    identity = record.identity or await find_by_hello(record.instance, files)
    if identity is None:
        return await asyncio.to_thread(_without_identity, record, files)
    alive, paused = await asyncio.to_thread(_look, record, identity)
    if not alive:
        if record.ending:
            return _seen(record, SandboxState.STOPPED, detail="it was told to end")
        end = await asyncio.to_thread(explain_end, record.cgroup, files)
        return Observation(Inspection(state=SandboxState.STOPPED, instance=record.instance, detail=end.detail, end=end))
    if paused:
        return _seen(record, SandboxState.PAUSED, identity)
    if not await _answers(record.instance, identity, files):
        return _seen(record, SandboxState.ERROR, identity, "init is alive but does not answer")
    return _seen(record, SandboxState.RUNNING, identity)


def _seen(record: Record, state: SandboxState, identity: Identity | None = None, detail: str = "") -> Observation:
    pid = None if identity is None else identity.pid
    return Observation(Inspection(state=state, instance=record.instance, pid=pid, detail=detail), identity)


def _without_identity(record: Record, files: SandboxFiles) -> Observation:
    if is_life_lock_held(files.log):
        return _seen(record, SandboxState.ERROR, detail="a start was interrupted and is not up yet")
    return _seen(record, SandboxState.STOPPED, detail="a start was interrupted")


def _look(record: Record, identity: Identity) -> tuple[bool, bool]:
    """Whether it is alive, and whether it is paused."""
    return is_alive(identity), _is_paused(record)


def _is_paused(record: Record) -> bool:
    frozen = None if record.cgroup is None else open_cgroup(record.cgroup).is_frozen()
    return record.paused if frozen is None else frozen


async def _answers(instance: str, identity: Identity, files: SandboxFiles) -> bool:
    """Whether that process, which was alive a moment ago, listens on the sandbox's socket and knows the instance."""
    try:
        async with await InitConnection.open(files.control, HELLO_TIMEOUT_S) as init:
            return init.peer_pid == identity.pid and (await init.ask(op="hello")).get("instance") == instance
    except Unavailable:
        return False


async def find_by_hello(instance: str, files: SandboxFiles) -> Identity | None:
    """The process that listens on the sandbox's socket and knows the instance; None when none answers so."""
    try:
        async with await InitConnection.open(files.control, HELLO_TIMEOUT_S) as init:
            if (await init.ask(op="hello")).get("instance") != instance:
                return None
            identity = await asyncio.to_thread(identify, init.peer_pid)
            # It answers again, so it was alive all the while and the pid was nobody else's.
            await init.ask(op="hello")
    except Unavailable:
        return None
    return identity


def find_by_status(instance: str, files: SandboxFiles) -> Identity | None:
    """An init that never came to listen: bubblewrap noted its pid, and its arguments carry the instance."""
    pid = _status(files.status).get("child-pid")
    if not isinstance(pid, int):
        return None
    identity = identify(pid)
    try:
        arguments = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return identity if instance.encode() in arguments and identity == identify(pid) else None


def explain_end(place: CgroupPlace | None, files: SandboxFiles) -> End:
    """Of the last incarnation, which is no longer alive. Waits a moment for what is about to be noted."""
    code = _noted_exit_code(files)
    if code is None:
        return End(cause="unknown", detail="how it ended is not known", looked_at=(STATUS_WORDS,))
    killed = None if place is None else open_cgroup(place).usage().oom_kills
    return end_by_code(code, f"init ended with code {code}", out_of_memory=bool(killed))


def exit_code(files: SandboxFiles) -> int | None:
    """Of the last init; 128 + n for signal n. None while it runs or where nobody noted it."""
    code = _status(files.status).get("exit-code")
    return code if isinstance(code, int) else None


def _noted_exit_code(files: SandboxFiles) -> int | None:
    """Of an init that has just ended: bubblewrap, which outlives it by a moment, is about to note it."""
    deadline = time.monotonic() + NOTED_S
    while (code := exit_code(files)) is None and is_life_lock_held(files.log) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    # It may have been noted between the two looks.
    return exit_code(files) if code is None else code


def _status(path: Path) -> dict[str, object]:
    """bubblewrap writes one JSON object after the other."""
    merged: dict[str, object] = {}
    try:
        for line in path.read_bytes().splitlines():
            merged.update(msgspec.json.decode(line, type=dict[str, object]))
    except (OSError, msgspec.MsgspecError):
        return merged
    return merged
