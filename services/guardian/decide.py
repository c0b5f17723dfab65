"""From a finding to what is done about it. Pure: the log is what remembers."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from contracts.guardian import STEPS, Finding, Policy, Step, further, milder
from services.guardian.bounded import with_entry

REMEMBERED = 256
"""Findings of one sandbox that are not told again too soon."""
LONGEST_DOUBLING = 6
SHADOW = "shadow"

Obstacle = Callable[[Step], str]
"""Why a step cannot be taken; empty where it can."""


class Last(Struct, frozen=True):
    """When the same was told last."""

    at_ms: int
    count: int
    sequence: int
    """The newest of its evidence."""


class Taken(Struct, frozen=True):
    """The last step against a trouble."""

    step: Step
    at_ms: int


class Memory(Struct, frozen=True):
    told: Mapping[str, Last] = {}
    taken: Mapping[str, Taken] = {}


class Decision(Struct, frozen=True, kw_only=True):
    finding: Finding
    step: Step
    at_ms: int
    count: int
    """How often the same was told, this time included."""
    escalated: bool
    """A further step than last time."""
    held: str = ""
    """Why the step is not taken. What was not taken is not gone beyond either."""


class Decided(NamedTuple):
    memory: Memory
    decision: Decision | None
    """None while the same was told a short time ago."""


class Word(NamedTuple):
    """What the log says was told."""

    rule: str
    key: str
    last: Last
    step: Step
    held: str


def nothing(_step: Step) -> str:
    """Stands in the way."""
    return ""


def decide(memory: Memory, finding: Finding, policy: Policy, at_ms: int, obstacle: Obstacle = nothing) -> Decided:
    """The step that the settings begin with; one further, up to their furthest, each time that it goes on."""
    name = key_of(finding.rule, finding.key)
    last = memory.told.get(name)
    furthest = milder(policy.furthest, finding.at_most)
    now = Last(at_ms, 1 if last is None else last.count + 1, finding.evidence[-1])
    if last is not None and (_is_same(last, now) or at_ms < last.at_ms + _quiet_ms(policy, last, furthest)):
        return Decided(memory, None)
    taken = memory.taken.get(trouble_of(name))
    step = milder(_step(policy, taken, at_ms), furthest)
    decision = Decision(
        finding=finding,
        step=step,
        at_ms=at_ms,
        count=now.count,
        escalated=taken is not None and STEPS.index(step) > STEPS.index(taken.step),
        held="" if step is Step.OBSERVE else obstacle(step),
    )
    return Decided(_remember(memory, name, now, None if decision.held else Taken(step, at_ms)), decision)


def learn(memory: Memory, word: Word, *, shadow: bool = False) -> Memory:
    """Take over what the log says was told. What was only done in shadow counts in shadow, and nowhere else."""
    if word.held == SHADOW and not shadow:
        return memory
    name = key_of(word.rule, word.key)
    known, taken = memory.told.get(name), memory.taken.get(trouble_of(name))
    if known is not None and known.at_ms > word.last.at_ms:
        return memory
    is_newer = taken is None or taken.at_ms <= word.last.at_ms
    was_taken = is_newer and word.held in ("", SHADOW)
    return _remember(memory, name, word.last, Taken(word.step, word.last.at_ms) if was_taken else None)


def key_of(rule: str, key: str) -> str:
    return f"{rule}/{key}"


def trouble_of(key: str) -> str:
    """What a further step is taken against: the same trouble in another shape (`…#shape`) is the same trouble."""
    return key.partition("#")[0]


def _remember(memory: Memory, name: str, last: Last, taken: Taken | None) -> Memory:
    memory = replace(memory, told=with_entry(memory.told, name, last, REMEMBERED))
    if taken is None:
        return memory
    return replace(memory, taken=with_entry(memory.taken, trouble_of(name), taken, REMEMBERED))


def _is_same(last: Last, now: Last) -> bool:
    """A moment that has come once comes again after a restart."""
    return (last.at_ms, last.sequence) == (now.at_ms, now.sequence)


def _step(policy: Policy, taken: Taken | None, at_ms: int) -> Step:
    if taken is None:
        return policy.step
    # Who gets two words at once has not gone on after the first.
    is_soon = at_ms < taken.at_ms + int(policy.cooldown_s * 1000)
    return further(policy.step, taken.step if is_soon else _next(taken.step))


def _next(step: Step) -> Step:
    return STEPS[min(STEPS.index(step) + 1, len(STEPS) - 1)]


def _quiet_ms(policy: Policy, last: Last, furthest: Step) -> int:
    """What is only ever observed is told less and less often; what is acted on must be acted on again."""
    doublings = min(last.count - 1, LONGEST_DOUBLING) if furthest is Step.OBSERVE else 0
    return int(policy.cooldown_s * 1000) << doublings
