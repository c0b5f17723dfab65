"""What is really there, in our words."""

from typing import NamedTuple

from contracts.errors import SandboxStartFailed
from infra.docker.containers import ContainerInfo, Containers
from infra.docker.errors import Refused
from infra.docker.instance import instance_of
from infra.sandbox.base import End, Inspection, SandboxState
from infra.sandbox.docker.record import Record
from infra.sandbox.ends import end_by_code

ENGINE_LOST_IT = 255
ENGINE_LIST = "the engine's containers: it is not among them"
ENGINE_NOTE = "what the engine notes of its container: not who ended it"
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
    state = SandboxState.STOPPED if info is None else STATES.get(info.state.status, SandboxState.ERROR)
    if info is None or state not in UP:
        detail = "its container is gone" if info is None else _end(info)
        # The record knows no instance after a stop, and says so before one: either way nobody need be told.
        died = state is SandboxState.STOPPED and record.instance is not None and not record.ending
        end = found_dead(info) if died else None
        return Observation(record, Inspection(state=state, instance=record.instance, detail=detail, end=end))
    instance = instance_of(info.id, info.state.started_at)
    return Observation(record, Inspection(state=state, instance=instance, pid=info.state.pid))


def found_dead(info: ContainerInfo | None) -> End:
    """How it ended, where nobody watched: only what the engine has noted."""
    if info is None:
        return End(cause="unknown", detail="its container is gone, and nobody was told when", looked_at=(ENGINE_LIST,))
    if info.state.is_up:
        detail = "its container was started again, and nobody was told when it ended"
        return End(cause="unknown", detail=detail, looked_at=(ENGINE_NOTE,))
    code = info.state.exit_code
    detail = f"found dead: its first process had ended with code {code}"
    if code == ENGINE_LOST_IT:
        return End(cause="engine_lost", detail=f"{detail}, which is what the engine says of what it lost")
    if code == 0:
        # It ends so when it is asked to: by something inside, by a person, by an engine that goes.
        return End(cause="unknown", detail=detail, exit_code=0, looked_at=(ENGINE_NOTE,))
    return end_by_code(code, detail, out_of_memory=info.state.oom_killed)


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
