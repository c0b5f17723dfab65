"""From a finding to what is done about it. Pure: the log is what remembers."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from contracts.guardian import STEPS, Finding, Policy, Step, milder
from services.guardian.bounded import with_entry

REMEMBERED = 256
"""Findings of one sandbox that are not told again too soon."""
LONGEST_DOUBLING = 6


class Last(Struct, frozen=True):
    """When the same was told last, and what was done about it."""

    step: Step
    at_ms: int
    count: int


Memory = Mapping[str, Last]


class Decision(Struct, frozen=True, kw_only=True):
    finding: Finding
    step: Step
    at_ms: int
    count: int
    """How often the same was told, this time included."""
    escalated: bool
    """A further step than last time."""


class Decided(NamedTuple):
    memory: Memory
    decision: Decision | None
    """None while the same was told a short time ago."""


def decide(memory: Memory, finding: Finding, policy: Policy, at_ms: int) -> Decided:
    """The step that the settings begin with; one further, up to their furthest, each time that it goes on."""
    last = memory.get(key_of(finding.rule, finding.key))
    furthest = milder(policy.furthest, finding.at_most)
    if last is None:
        return _told(memory, finding, milder(policy.step, furthest), at_ms, None)
    if at_ms < last.at_ms + _quiet_ms(policy, last, furthest):
        return Decided(memory, None)
    return _told(memory, finding, milder(_next(last.step), furthest), at_ms, last)


def learn(memory: Memory, rule: str, key: str, last: Last) -> Memory:
    """Take over what the log says was told."""
    name = key_of(rule, key)
    known = memory.get(name)
    return memory if known is not None and known.at_ms >= last.at_ms else with_entry(memory, name, last, REMEMBERED)


def key_of(rule: str, key: str) -> str:
    return f"{rule}/{key}"


def _told(memory: Memory, finding: Finding, step: Step, at_ms: int, last: Last | None) -> Decided:
    count = last.count + 1 if last else 1
    escalated = last is not None and STEPS.index(step) > STEPS.index(last.step)
    decision = Decision(finding=finding, step=step, at_ms=at_ms, count=count, escalated=escalated)
    remembered = with_entry(memory, key_of(finding.rule, finding.key), Last(step, at_ms, count), REMEMBERED)
    return Decided(remembered, decision)


def _next(step: Step) -> Step:
    return STEPS[min(STEPS.index(step) + 1, len(STEPS) - 1)]


def _quiet_ms(policy: Policy, last: Last, furthest: Step) -> int:
    """What is only ever observed is told less and less often; what is acted on must be acted on again."""
    doublings = min(last.count - 1, LONGEST_DOUBLING) if furthest is Step.OBSERVE else 0
    return int(policy.cooldown_s * 1000) << doublings
