"""Rules with their settings, and who of them wants what."""

from collections.abc import Sequence
from typing import NamedTuple

from contracts.guardian import Policy
from services.guardian.rules.rule import Rule, never
from services.guardian.seen import TICK


class Bound(NamedTuple):
    """A rule with its settings."""

    rule: Rule
    settings: Policy


class RuleSet:
    """Made once for all sandboxes: most events are of interest to few rules."""

    def __init__(self, rules: Sequence[Bound]) -> None:
        self.rules = tuple(rules)
        self.wanted = frozenset().union(*(each.rule.reads for each in rules))
        self.timed = tuple(number for number, each in enumerate(rules) if each.rule.due is not never)
        self._readers = {tag: self._of(tag) for tag in self.wanted} | {TICK: self.timed}

    def readers(self, tag: str) -> tuple[int, ...]:
        """The numbers of the rules that are given events of this tag."""
        return self._readers.get(tag, ())

    def _of(self, tag: str) -> tuple[int, ...]:
        return tuple(number for number, each in enumerate(self.rules) if tag in each.rule.reads)
