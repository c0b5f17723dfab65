"""What is really there, in our words."""

from typing import NamedTuple

from contracts.errors import SandboxStartFailed
from infra.docker.containers import ContainerInfo, Containers
from infra.docker.errors import Refused
from infra.docker.instance import instance_of
from infra.sandbox.base import Inspection, SandboxState
from infra.sandbox.docker.record import Record

UP = (SandboxState.RUNNING, SandboxState.PAUSED)
STATES = {
    "running": SandboxState.RUNNING,
    "paused": SandboxState.PAUSED,
    "exited": SandboxState.STOPPED,
    "dead": SandboxState.STOPPED,
    # Made to the end, for its record says so, and never started.
    "created": SandboxState.STOPPED,
}


class Observation(NamedTuple):
    record: Record
    inspection: Inspection

    @property
    def is_up(self) -> bool:
        return self.inspection.state in UP


def observe(record: Record, info: ContainerInfo | None) -> Observation:
    if not record.ready:
        return Observation(record, Inspection(state=SandboxState.CREATING))
    if info is None:
        return Observation(record, Inspection(state=SandboxState.STOPPED, detail="its container is gone"))
    state = STATES.get(info.state.status, SandboxState.ERROR)
    if state not in UP:
        return Observation(record, Inspection(state=state, instance=record.instance, detail=_end(info)))
    instance = instance_of(info.id, info.state.started_at)
    return Observation(record, Inspection(state=state, instance=instance, pid=info.state.pid))


def _end(info: ContainerInfo) -> str:
    if info.state.status == "created":
        return ""
    said = f": {info.state.error}" if info.state.error else ""
    return f"the container is {info.state.status}, its first process ended with code {info.state.exit_code}{said}"


async def start_container(containers: Containers, container: str) -> ContainerInfo:
    """Raises `SandboxStartFailed` with the engine's words, also when it ends again at once."""
    try:
        await containers.start(container)
        info = await containers.inspect(container)
    except Refused as error:
        raise SandboxStartFailed(f"the engine cannot start the container: {error.message}") from error
    if info is None or not info.state.is_up:
        raise SandboxStartFailed("the container is gone" if info is None else _end(info))
    return info
