"""Recorded runs, with a fault and without one, under every rule as it is by default."""

import datetime

import msgspec
import pytest

from contracts import codec
from contracts.guardian import Budget, Guardian, Step
from contracts.message import Fact
from tests.guardian.stories import FAULTS, HONEST
from tests.guardian.story import HISTORIES, Line, judge, recorded, rules_of

SETTINGS = Guardian(budget=Budget(max_usd=10))
OVERNIGHT_S = 9 * 3600.0


def as_read(lines: list[bytes]) -> list[tuple[int, datetime.datetime, Fact | None]]:
    """By today's contracts: a field that is new since the recording has its default."""
    entries = [msgspec.json.decode(line, type=Line) for line in lines]
    heads = [(entry.sequence, codec.decode_head(bytes(entry.event))) for entry in entries]
    return [(sequence, head.time, codec.decode_fact(head)) for sequence, head in heads]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_by_its_rule_and_by_no_other(name: str) -> None:
    found = judge(recorded(name), SETTINGS)
    assert set(rules_of(found)) == set(FAULTS[name][1])


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_only_observed_unless_the_settings_say_otherwise(name: str) -> None:
    assert {each.step for each in judge(recorded(name), SETTINGS)} == {Step.OBSERVE}


@pytest.mark.parametrize("name", FAULTS)
def test_evidence_names_events_that_were_there_by_then(name: str) -> None:
    lines = recorded(name)
    for found in judge(lines, SETTINGS):
        evidence = found.decision.finding.evidence
        assert evidence
        assert list(evidence) == sorted(set(evidence))
        assert all(1 <= sequence <= len(lines) for sequence in evidence)


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_found_in_honest_work(name: str) -> None:
    assert rules_of(judge(recorded(name), SETTINGS, silence_s=OVERNIGHT_S)) == []


@pytest.mark.parametrize("name", [*FAULTS, *HONEST])
def test_a_recorded_history_is_what_its_story_tells(name: str) -> None:
    make = FAULTS[name][0] if name in FAULTS else HONEST[name]
    assert as_read(recorded(name)) == as_read(make().lines())


def test_every_recorded_history_has_a_story() -> None:
    assert {path.stem for path in HISTORIES.glob("*.jsonl")} == {*FAULTS, *HONEST}


@pytest.mark.parametrize("name", [*FAULTS, *HONEST])
def test_the_same_history_gives_the_same_each_time(name: str) -> None:
    assert judge(recorded(name), SETTINGS) == judge(recorded(name), SETTINGS)
