"""What to do about a sandbox that is in its state. Pure."""

import datetime
from collections.abc import Iterator

from contracts.errors import Failure
from contracts.events.health import DeathCause, HealthDied, HealthUnhealthy
from contracts.events.sandbox import SandboxFailed, SandboxStopped
from contracts.recovery import is_recovering
from contracts.state import SandboxState, Status
from services.cli.plot import Plot
from services.cli.story import Advice

PATIENCE_S = 60.0
MORE = "the same files in a new sandbox that may have more"
_ENOUGH = {
    "timeout": "the same files in a new sandbox that may run for longer",
    "idle": "the same files in a new sandbox that is not stopped for doing nothing",
}
LARGEST = {"memory_mb": 32_768, "disk_mb": 102_400, "timeout_ms": 86_400_000}


def advice(plot: Plot, *, now: datetime.datetime, head: int, unseen: bool = False) -> list[Advice]:
    """`head` is the last sequence of the log: a fork begins with the files as they are there.

    `unseen`: somebody should have looked at it, and nobody has.
    """
    state = plot.state
    if state is None:
        return [Advice(do="cloche create", why="make it, with a specification that can be kept")]
    match state.status:
        case Status.CREATING:
            return list(_being_made(state, plot, now))
        case Status.RUNNING | Status.PAUSED:
            return list(_unseen(state) if unseen else _alive(state, plot, now))
        case Status.STOPPED:
            return list(_stopped(state, plot, head))
        case Status.FAILED:
            return list(_failed(state, plot, head))
        case Status.REMOVED:
            return list(_removed(state, head))
    return []


def _being_made(state: SandboxState, plot: Plot, now: datetime.datetime) -> Iterator[Advice]:
    if plot.arrival is not None and (now - plot.arrival.head.time).total_seconds() < PATIENCE_S:
        yield Advice(do=f"cloche events {state.sandbox} -f", why="wait, and see how it goes on")
        return
    yield Advice(do="cloche doctor", why=f"it takes long: is node {state.node} up, and its engine?")
    if is_recovering(state):
        yield Advice(do=f"cloche recover {state.sandbox} --node NODE", why="or have another node make it")
    yield Advice(do=f"cloche rm {state.sandbox}", why="or give it up")


def _unseen(state: SandboxState) -> Iterator[Advice]:
    yield Advice(do="cloche doctor", why=f"is node {state.node} up, and its health monitor?")
    yield Advice(do=f"cloche recover {state.sandbox} --node NODE", why="have another node make it, if its own is gone")


def _alive(state: SandboxState, plot: Plot, now: datetime.datetime) -> Iterator[Advice]:
    name = state.sandbox
    if plot.death_of_this_life is not None:
        if (now - plot.death_of_this_life.head.time).total_seconds() > 2 * PATIENCE_S:
            yield Advice(do="cloche doctor", why=f"it takes long: is node {state.node} up, and its engine?")
        yield Advice(do=f"cloche events {name} -f --type sandbox", why="see what becomes of it")
        yield Advice(do=f"cloche recover {name}", why="or have it back now")
    elif plot.excess is None and plot.condition is not None and isinstance(plot.condition.fact, HealthUnhealthy):
        yield Advice(do="cloche doctor", why="see what its node has and lacks")
        yield Advice(do=f"cloche recover {name}", why="make it anew, with its workspace; what runs in it ends")
    elif state.status == Status.PAUSED:
        yield Advice(do=f"cloche resume {name}", why="let it go on")
    elif any(run.is_open and run.pending for run in state.runs):
        yield Advice(do=f"cloche agent pending {name}", why="its agent waits for your answer")


def _stopped(state: SandboxState, plot: Plot, head: int) -> Iterator[Advice]:
    name = state.sandbox
    stopped = plot.arrival.fact if plot.arrival is not None else None
    failure = stopped.failure if isinstance(stopped, SandboxStopped) else None
    limit = _limit_behind(failure, plot)
    if limit == "disk":
        yield Advice(do=f"cloche files rm {name} PATH", why="make room in its workspace, before it is started again")
    yield Advice(do=f"cloche start {name}", why="start it again, with its workspace")
    if failure is not None and limit is None:
        yield Advice(do=f"cloche logs {name}", why="see what ran in it")
    raised = _raised(state, limit)
    if raised is not None:
        yield _fork(state, head, raised, _ENOUGH.get(limit or "", MORE))


def _limit_behind(failure: Failure | None, plot: Plot) -> str | None:
    if failure is None:
        return None
    if "limit" in failure.details:
        return failure.details["limit"]
    died = plot.death_of_this_life.fact if plot.death_of_this_life is not None else None
    causes: dict[str, str] = {DeathCause.OOM: "memory", DeathCause.DISK: "disk"}
    return causes.get(died.cause) if isinstance(died, HealthDied) else None


def _raised(state: SandboxState, limit: str | None) -> str | None:
    """A setting with twice of what was not enough; None where there is no more."""
    field = {"memory": "memory_mb", "disk": "disk_mb", "timeout": "timeout_ms"}.get(limit or "")
    if field is not None:
        now: int = getattr(state.spec.resources, field)
        more = min(now * 2, LARGEST[field])
        return f"resources.{field}={more}" if more > now else None
    if limit == "idle" and state.spec.idle_stop_ms is not None:
        return "idle_stop_ms=null"
    return None


def _failed(state: SandboxState, plot: Plot, head: int) -> Iterator[Advice]:
    name = state.sandbox
    failed = plot.arrival.fact if plot.arrival is not None else None
    failure = failed.failure if isinstance(failed, SandboxFailed) else None
    if not state.created:
        yield Advice(do="cloche doctor", why="see what its node has and lacks")
        yield Advice(do="cloche create", why="make another, once the reason is gone; its id is taken")
        return
    yield Advice(do=f"cloche logs {name}", why="see what ran in it")
    yield Advice(do=f"cloche recover {name}", why="try once more; its workspace is kept")
    yield Advice(do=f"cloche recover {name} --at SEQUENCE", why="or with its files as they were before")
    raised = _raised(state, _limit_behind(failure, plot))
    if raised is not None:
        yield _fork(state, head, raised, MORE)


def _removed(state: SandboxState, head: int) -> Iterator[Advice]:
    name = state.sandbox
    yield Advice(do=f"cloche logs {name}", why="all that was written in it")
    if state.created:
        yield Advice(do=f"cloche files tree {name} --at {head}", why="its files as they were last")
        yield _fork(state, head, None, "a new sandbox that begins with them")


def _fork(state: SandboxState, head: int, setting: str | None, why: str) -> Advice:
    more = f" --set {setting}" if setting else ""
    return Advice(do=f"cloche fork {state.sandbox} --at {head}{more}", why=why)
