"""Where a sandbox is, and which runs are open in it: who could be told, or stopped."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from contracts.events import agent, sandbox
from contracts.state import Status
from services.guardian.bounded import with_entry, without
from services.guardian.calls import brief
from services.guardian.seen import Seen

RUNS = 64
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
        case sandbox.SandboxCreating() | sandbox.SandboxCreated() | sandbox.SandboxRecovering():
            place = replace(place, node=fact.node)
        case sandbox.SandboxRecovered():
            place = replace(place, node=fact.node)
        case agent.AgentStarted():
            place = replace(place, runs=with_entry(place.runs, brief(fact.run), event.sequence, RUNS))
        case agent.AgentCompleted() | agent.AgentError():
            place = replace(place, runs=without(place.runs, brief(fact.run)))
    return replace(place, status=_STATUS[event.tag]) if event.tag in _STATUS else place
