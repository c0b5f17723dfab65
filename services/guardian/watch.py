"""One sandbox under every rule: events in, decisions out. No clock and no I/O, so the same log gives the same."""

from typing import Any

from msgspec import Struct

from contracts.events.guardian import GuardianEscalated, GuardianIntervention, GuardianObserved
from contracts.guardian import STEPS, Finding, Policy, Step
from services.guardian import calls, place
from services.guardian.calls import OpenCalls
from services.guardian.decide import Decision, Last, Memory, Obstacle, Word, decide, learn
from services.guardian.moments import milliseconds
from services.guardian.place import Place
from services.guardian.rules.rule import Outcome, Rule, shown
from services.guardian.rules.rule_set import RuleSet
from services.guardian.seen import TICK, Seen

GUARDIAN_TAGS = frozenset({"guardian.observed", "guardian.intervention", "guardian.escalated"})
MAX_TICKS = 1000
"""For one step of time: a rule that always wants another one must not keep everybody."""
LATE = "the guardian was away"


class Kept(Struct):
    """Everything that is remembered of a sandbox."""

    states: list[Any]
    open_calls: OpenCalls = OpenCalls()
    place: Place = Place()
    memory: Memory = Memory()
    sequence: int = 0


class Watch:
    def __init__(self, rules: RuleSet, *, learns: bool, shadow: bool = False, since_ms: int = 0) -> None:
        """`learns`: what the log says was told counts as told, as after a restart; in `shadow` also what was not done.

        Moments before `since_ms` are passed over in silence.
        """
        self._rules = rules
        self._learns = learns
        self._shadow = shadow
        self._since_ms = since_ms
        self.kept = Kept([each.rule.begin() for each in rules.rules])
        self.due_ms: int | None = None
        """The next moment at which something is found if nothing happens until then."""

    @property
    def place(self) -> Place:
        return self.kept.place

    def feed(self, event: Seen, *, silent: bool = False, late: bool = False) -> list[Decision]:
        """One event further, and before it the moments that had come by then. `silent`: nothing is decided.

        `late`: it is history by now, so what is decided is not done unless somebody thinks it over.
        """
        decisions = self.until(event.at_ms, silent=silent, late_ms=event.at_ms + 1 if late else 0)
        self.kept.sequence = event.sequence
        if event.tag in GUARDIAN_TAGS and self._learns:
            self._learn(event.fact)
        if event.tag in place.TAGS:
            self.kept.place = place.apply(self.kept.place, event)
        if event.tag in calls.TAGS:
            open_calls, call = calls.pair(self.kept.open_calls, event.sequence, event.at_ms, event.fact)
            self.kept.open_calls, event = open_calls, event._replace(call=call)
        return decisions + self._step(event, silent=silent, late=late)

    def until(self, at_ms: int, *, silent: bool = False, late_ms: int = 0) -> list[Decision]:
        """What is found because nothing happened until then; what was to be found before `late_ms` is late."""
        decisions: list[Decision] = []
        for _ in range(MAX_TICKS):
            due = self.due_ms
            if due is None or due > at_ms:
                break
            tick = Seen(self.kept.sequence, due, TICK)
            decisions += self._step(tick, silent=silent or due < self._since_ms, late=due < late_ms)
        return decisions

    def _step(self, event: Seen, *, silent: bool, late: bool) -> list[Decision]:
        decisions: list[Decision] = []
        for number in self._rules.readers(event.tag):
            rule, settings = self._rules.rules[number]
            outcome = _guarded(rule, settings, self.kept.states[number], event)
            self.kept.states[number] = outcome.state
            for finding in () if silent else outcome.findings:
                obstacle = self._obstacle(finding, late=late)
                self.kept.memory, decision = decide(self.kept.memory, finding, settings, event.at_ms, obstacle)
                decisions += [decision] if decision else []
        self.due_ms = self._next_due()
        return decisions

    def _obstacle(self, finding: Finding, *, late: bool) -> Obstacle:
        where = self.kept.place
        return lambda step: place.obstacle(where, step, finding.run) or (LATE if late else "")

    def _next_due(self) -> int | None:
        soonest: int | None = None
        for number in self._rules.timed:
            rule, settings = self._rules.rules[number]
            due = rule.due(settings, self.kept.states[number])
            if due is not None and (soonest is None or due < soonest):
                soonest = due
        return soonest

    def _learn(self, fact: object) -> None:
        match fact:
            case GuardianObserved() | GuardianIntervention() | GuardianEscalated() if fact.at and fact.evidence:
                if fact.step not in STEPS:
                    return
                last = Last(milliseconds(fact.at), fact.count, fact.evidence[-1])
                held = fact.held if isinstance(fact, GuardianObserved) else ""
                word = Word(fact.rule, fact.key, last, Step(fact.step), held)
                self.kept.memory = learn(self.kept.memory, word, shadow=self._shadow)


def _guarded(rule: Rule, settings: Policy, state: Any, event: Seen) -> Outcome:
    try:
        return rule.step(settings, state, event)
    except Exception as error:  # noqa: BLE001  a fault of one rule must not blind the others
        return Outcome(rule.begin(), (_fault(rule, error, event),))


def _fault(rule: Rule, error: Exception, event: Seen) -> Finding:
    return Finding(
        rule=rule.name,
        key=f"fault/{type(error).__name__}",
        text=f"this rule failed on {event.tag}: {shown(repr(error))}",
        evidence=(event.sequence,),
        at_most=Step.OBSERVE,
    )
