"""From a finding to a step, and no word twice."""

import msgspec
import pytest

from contracts.guardian import STEPS, Finding, Guardian, Policy, Step
from services.guardian.decide import REMEMBERED, Decision, Last, Memory, decide, learn

S = 1000
MINUTE = 60 * S


def finding(key: str = "k", at_most: Step = Step.STOP) -> Finding:
    return Finding(rule="r", key=key, text="t", evidence=(1,), at_most=at_most)


def over_time(policy: Policy, *moments: int, at_most: Step = Step.STOP) -> list[tuple[int, Step, bool]]:
    """When it is told, as what, and whether that is a further step."""
    memory: Memory = {}
    told = []
    for at_ms in moments:
        memory, decision = decide(memory, finding(at_most=at_most), policy, at_ms)
        if decision is not None:
            told.append((at_ms // S, decision.step, decision.escalated))
    return told


def test_the_first_finding_gets_the_first_step() -> None:
    for step in STEPS:
        assert over_time(Policy(step=step), 0) == [(0, step, False)]


def test_the_same_finding_is_not_told_again_until_it_has_cooled_down() -> None:
    policy = Policy(step=Step.GUIDANCE, cooldown_s=60)
    assert over_time(policy, 0, 1, 59 * S, 60 * S - 1) == [(0, Step.GUIDANCE, False)]
    assert over_time(policy, 0, 60 * S) == [(0, Step.GUIDANCE, False), (60, Step.GUIDANCE, False)]


def test_each_time_that_it_goes_on_a_further_step_is_taken_up_to_the_furthest() -> None:
    policy = Policy(step=Step.OBSERVE, up_to=Step.PAUSE, cooldown_s=60)
    steps = over_time(policy, *(number * MINUTE for number in range(6)))
    assert steps == [
        (0, Step.OBSERVE, False),
        (60, Step.GUIDANCE, True),
        (120, Step.INTERRUPT, True),
        (180, Step.PAUSE, True),
        (240, Step.PAUSE, False),
        (300, Step.PAUSE, False),
    ]


def test_without_a_furthest_step_nothing_is_escalated() -> None:
    policy = Policy(step=Step.INTERRUPT, cooldown_s=60)
    assert {step for _, step, _ in over_time(policy, 0, MINUTE, 5 * MINUTE)} == {Step.INTERRUPT}


def test_what_is_only_observed_is_told_less_and_less_often() -> None:
    policy = Policy(cooldown_s=60)
    told = [at for at, _, _ in over_time(policy, *(number * MINUTE for number in range(40)))]
    assert told == [0, 60, 180, 420, 900, 1860]


def test_a_finding_may_be_too_small_for_a_further_step() -> None:
    policy = Policy(step=Step.INTERRUPT, up_to=Step.STOP, cooldown_s=60)
    told = over_time(policy, 0, MINUTE, 2 * MINUTE, at_most=Step.GUIDANCE)
    assert {step for _, step, _ in told} == {Step.GUIDANCE}


def test_other_findings_are_told_at_once() -> None:
    memory, first = decide({}, finding("a"), Policy(), 0)
    _, second = decide(memory, finding("b"), Policy(), 0)
    assert first is not None
    assert second is not None


def test_what_the_log_says_was_told_counts_as_told() -> None:
    policy = Policy(step=Step.GUIDANCE, up_to=Step.STOP, cooldown_s=60)
    memory, first = decide({}, finding(), policy, 5 * S)
    assert first is not None
    learnt = learn({}, "r", "k", Last(first.step, first.at_ms, first.count))
    assert learnt == memory
    assert decide(learnt, finding(), policy, 30 * S).decision is None
    again = decide(learnt, finding(), policy, 70 * S).decision
    assert again is not None
    assert (again.step, again.count) == (Step.INTERRUPT, 2)


def test_an_older_word_does_not_undo_a_newer_one() -> None:
    newer = learn({}, "r", "k", Last(Step.PAUSE, 100, 3))
    assert learn(newer, "r", "k", Last(Step.GUIDANCE, 50, 1)) == newer


def test_only_so_many_findings_are_remembered() -> None:
    memory: Memory = {}
    for number in range(REMEMBERED * 2):
        memory = decide(memory, finding(str(number)), Policy(), number).memory
    assert len(memory) == REMEMBERED
    assert decide(memory, finding(str(REMEMBERED * 2 - 1)), Policy(), 0).decision is None


def test_a_furthest_step_that_is_milder_than_the_first_is_refused_by_its_names() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"`up_to` \(guidance\) is milder than `step` \(pause\)"):
        msgspec.convert({"budget": {"step": "pause", "up_to": "guidance"}}, Guardian)


def test_a_decision_says_how_often_it_was_made() -> None:
    policy = Policy(cooldown_s=0)
    memory: Memory = {}
    made: list[Decision] = []
    for at_ms in range(3):
        memory, decision = decide(memory, finding(), policy, at_ms)
        made += [decision] if decision else []
    assert [each.count for each in made] == [1, 2, 3]
