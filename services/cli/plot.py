"""What matters, of all that happened to a sandbox, for the state that it is in. Pure: a fold over its events."""

from collections import deque
from typing import NamedTuple

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events import sandbox
from contracts.events.agent import AgentCompleted, AgentError, AgentStarted
from contracts.events.audit import DeadLetter
from contracts.events.command import CommandLost
from contracts.events.guardian import GuardianEscalated, GuardianIntervention
from contracts.events.health import HealthDied, HealthHealthy, HealthLimitExceeded, HealthUnhealthy
from contracts.message import EventHead, Fact
from contracts.runs import ends
from contracts.state import SandboxState, apply

KEPT_STEPS = 100
EVENTS_A_SENTENCE = 3

GuardianStep = GuardianIntervention | GuardianEscalated


class Noted(NamedTuple):
    sequence: int
    head: EventHead
    fact: Fact


class Plot:
    """Keeps as much as it takes to tell the last `shown` of what happened."""

    def __init__(self, shown: int) -> None:
        self.shown = shown
        self.state: SandboxState | None = None
        self.moves: deque[Noted] = deque(maxlen=shown * EVENTS_A_SENTENCE)
        """What changed it, in order."""
        # A client that keeps asking wrongly must not hide what happened.
        self.letters: deque[Noted] = deque(maxlen=max(shown // 2, 1))
        self.lost: deque[Noted] = deque(maxlen=max(shown // 2, 1))
        self.events = 0
        """That there were of these, kept or not."""
        self.steps: dict[str, Noted] = {}
        """By the command that it asked with: the guardian tells of a step after it has asked for it."""
        self.arrival: Noted | None = None
        """The last of its lifecycle: what brought it to its status."""
        self.recovering: Noted | None = None
        self.death: Noted | None = None
        """The last, of whichever life."""
        self.death_of_this_life: Noted | None = None
        self.excess: Noted | None = None
        """A limit that its present life went over."""
        self.condition: Noted | None = None
        """The last word on the health of its present life."""

    def feed(self, sequence: int, head: EventHead) -> None:
        """An event of an unknown tag, or one that cannot be read, tells nothing."""
        try:
            fact = codec.decode_fact(head)
            self.state = apply(self.state, sequence, head)
        except Invalid:
            return
        if fact is not None:
            self._take(Noted(sequence, head, fact))

    def _take(self, noted: Noted) -> None:
        match noted.fact:
            case sandbox.SandboxSnapshotted():
                return
            case DeadLetter():
                self._keep(self.letters, noted)
            case CommandLost():
                self._keep(self.lost, noted)
            case GuardianIntervention() | GuardianEscalated():
                self._take_step(noted)
            case HealthDied() | HealthLimitExceeded() | HealthHealthy() | HealthUnhealthy():
                self._take_health(noted)
            case sandbox.SandboxNetworkChanged() | AgentStarted():
                self._keep(self.moves, noted)
            case AgentCompleted() | AgentError() if ends(noted.fact):
                self._keep(self.moves, noted)
            case _ if noted.head.type.startswith("sandbox."):
                self._take_move(noted)

    def _take_move(self, noted: Noted) -> None:
        self.arrival = noted
        if isinstance(noted.fact, sandbox.SandboxStarted | sandbox.SandboxRecovered):
            self.death_of_this_life = self.excess = self.condition = None
        if isinstance(noted.fact, sandbox.SandboxRecovering):
            self.recovering = noted
        self._keep(self.moves, noted)

    def _take_health(self, noted: Noted) -> None:
        was_ill = self.condition is not None and isinstance(self.condition.fact, HealthUnhealthy)
        match noted.fact:
            case HealthDied(instance=instance):
                self.death = noted
                # It may be told after the sandbox has come back.
                if self.state is not None and instance in (None, self.state.instance):
                    self.death_of_this_life = noted
            case HealthLimitExceeded():
                self.excess = noted
            case _:
                self.condition = noted
        if not isinstance(noted.fact, HealthHealthy) or was_ill:
            self._keep(self.moves, noted)

    def _take_step(self, noted: Noted) -> None:
        assert isinstance(noted.fact, GuardianStep)
        if noted.fact.command is not None:
            self.steps[noted.fact.command] = noted
            if len(self.steps) > KEPT_STEPS:
                self.steps.pop(next(iter(self.steps)))
        self._keep(self.moves, noted)

    def _keep(self, where: deque[Noted], noted: Noted) -> None:
        self.events += 1
        where.append(noted)

    def step_behind(self, noted: Noted) -> Noted | None:
        """The guardian's step that asked for this, if it was one."""
        return self.steps.get(noted.head.correlationid or "")


def filters(sandbox_id: str) -> list[str]:
    """What of the log a plot is made of."""
    found: list[str] = []
    for family in ("sandbox", "health", subjects.DEAD_LETTER):
        found += subjects.events_of(sandbox_id, family=family)
    for kind in ("intervention", "escalated"):
        found += subjects.events_of(sandbox_id, family="guardian", kind=kind)
    for kind in ("started", "interrupted", "approval_requested", "approved", "rejected", "completed", "error"):
        found += subjects.events_of(sandbox_id, family="agent", kind=kind, scope="*")
    return [*found, *subjects.events_of(sandbox_id, family="command", kind="lost", scope="*")]
