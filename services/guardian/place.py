"""Where a sandbox is, and which runs are open in it: who could be told, or stopped."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from contracts.events import agent, sandbox
from contracts.guardian import Step
from contracts.ids import is_token
from contracts.state import Status
from services.guardian.bounded import with_entry, without
from services.guardian.calls import brief
from services.guardian.seen import Seen

RUNS = 64
OVER = frozenset({Status.STOPPED, Status.REMOVED, Status.FAILED})
TAGS = frozenset(
    {
        "sandbox.creating", "sandbox.created", "sandbox.started", "sandbox.paused", "sandbox.resumed",
        "sandbox.stopped", "sandbox.removed", "sandbox.failed", "sandbox.recovering", "sandbox.recovered",
        "agent.started", "agent.completed", "agent.error",
    }
)  # fmt: skip

_STATUS = {
    "sandbox.started": Status.RUNNING,
    "sandbox.resumed": Status.RUNNING,
    "sandbox.recovered": Status.RUNNING,
    "sandbox.paused": Status.PAUSED,
    "sandbox.stopped": Status.STOPPED,
    "sandbox.removed": Status.REMOVED,
    "sandbox.failed": Status.FAILED,
}


class Place(Struct, frozen=True):
    node: str | None = None
    status: Status = Status.CREATING
    runs: Mapping[str, int] = {}
    """Open ones, and the sequence of the start of each."""


def apply(place: Place, event: Seen) -> Place:
    fact = event.fact
    match fact:
        case (
            sandbox.SandboxCreating()
            | sandbox.SandboxCreated()
            | sandbox.SandboxRecovering()
            | sandbox.SandboxRecovered()
        ):
            place = replace(place, node=fact.node)
        case agent.AgentStarted():
            place = replace(place, runs=with_entry(place.runs, brief(fact.run), event.sequence, RUNS))
        case agent.AgentCompleted() | agent.AgentError(final=True):
            place = replace(place, runs=without(place.runs, brief(fact.run)))
    return replace(place, status=_STATUS[event.tag]) if event.tag in _STATUS else place


def addressee(place: Place, run: str | None) -> str | None:
    """The run that something is about, if it is still there; else, where it is about none, the newest."""
    found = next(reversed(list(place.runs)), None) if run is None else run
    return found if found is not None and found in place.runs and is_token(found) else None


def obstacle(place: Place, step: Step, run: str | None) -> str:
    """Why this step cannot be taken there; empty where it can."""
    if place.status in OVER:
        return f"the sandbox is {place.status}"
    return "no run is open" if step is not Step.STOP and addressee(place, run) is None else ""
