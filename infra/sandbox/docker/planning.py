"""From a record to the container that the engine is to make."""

import os
import posixpath
import resource
from pathlib import Path

from contracts.spec import NetworkMode
from infra.agent_tools import INSIDE as TOOLS_INSIDE
from infra.agent_tools import is_taken
from infra.docker.engine import EngineInfo
from infra.docker.plan import BindMount, ContainerPlan, VolumeMount
from infra.sandbox.docker.idle import INSIDE
from infra.sandbox.docker.limits import held_cpus
from infra.sandbox.docker.record import Record

HOME_LABEL = "cloche.home"
KEY_LABEL = "cloche.key"
TMP = "/tmp"  # noqa: S108 - inside
TMPFS = "rw,noexec,nosuid,size=512m"
OPEN_FILES = 65_536
OOM_SCORE_ADJ = 500
"""When the machine itself runs out of memory, sandboxes go before its services."""
MOST_NAME = 128
ROOT_UID, SANDBOX_ID = 0, 1000


def sandbox_user() -> str:
    """1000:1000. A service that is not root cannot give files away, so there it is the service's own user."""
    if os.geteuid() == ROOT_UID:
        return f"{SANDBOX_ID}:{SANDBOX_ID}"
    return f"{os.geteuid()}:{os.getegid()}"


def labels(home: str, key: str) -> dict[str, str]:
    return {HOME_LABEL: home, KEY_LABEL: key}


def volume_name(key: str) -> str:
    return f"cloche-{key}"


def blank_name(key: str) -> str:
    return f"cloche-blank-{key}"


def container_name(agent: str | None, sandbox: str, key: str) -> str:
    rest = f"-{sandbox}-{key}"
    return f"cloche-{agent or 'agent'}"[: MOST_NAME - len(rest)] + rest


def plan(record: Record, home: str, idle: Path, tools: Path | None, engine: EngineInfo) -> ContainerPlan:
    return ContainerPlan(
        image=record.image_id,
        command=(INSIDE,),
        user=record.user,
        working_dir=record.workspace,
        hostname="sandbox",
        labels=labels(home, record.key),
        network="bridge" if record.network is NetworkMode.FULL else "none",
        memory_bytes=record.resources.memory_mb << 20,
        cpus=held_cpus(record.resources.cpus, engine),
        pids=record.resources.pids,
        mounts=_mounts(record, idle, tools),
        tmpfs=_tmpfs(record),
        ulimits={"nofile": _open_files(), "core": 0, "fsize": record.resources.disk_mb << 20},
        runtime=record.runtime,
        oom_score_adj=OOM_SCORE_ADJ,
    )


def _open_files() -> int:
    """The engine cannot give more than it has, does not say how much, and has seldom less than we."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)


def _mounts(record: Record, idle: Path, tools: Path | None) -> tuple[BindMount | VolumeMount, ...]:
    given = (BindMount(source=each.source, target=each.target, read_only=each.read_only) for each in record.mounts)
    return (
        VolumeMount(volume=volume_name(record.key), target=record.workspace),
        BindMount(source=str(idle), target=INSIDE),
        *_tools(record, tools),
        *given,
    )


def _tools(record: Record, tools: Path | None) -> tuple[BindMount, ...]:
    if tools is None or is_taken(record.workspace, *(mount.target for mount in record.mounts)):
        return ()
    return (BindMount(source=str(tools), target=TOOLS_INSIDE),)


def _tmpfs(record: Record) -> dict[str, str]:
    """Also where the image asks for a volume: that would be a place on the host's disk that nothing bounds."""
    taken = {record.workspace, *(mount.target for mount in record.mounts)}
    wanted = (TMP, *(posixpath.normpath(path) for path in record.image_volumes))
    return {path: TMPFS for path in wanted if path not in taken}
