"""From a finding to a step, and no word twice."""

import msgspec
import pytest

from contracts.commands.agent import InterruptAgent, PauseAgent
from contracts.guardian import STEPS, Finding, Guardian, Policy, Step
from services.guardian.decide import REMEMBERED, Decision, Last, Memory, Word, decide, learn
from services.guardian.handlers import order_for

S = 1000
MINUTE = 60 * S


def finding(key: str = "k", at_most: Step = Step.STOP) -> Finding:
    return Finding(rule="r", key=key, text="t", evidence=(1,), at_most=at_most)


def over_time(policy: Policy, *moments: int, at_most: Step = Step.STOP) -> list[tuple[int, Step, bool]]:
    """When it is told, as what, and whether that is a further step."""
    memory = Memory()
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
    memory, first = decide(Memory(), finding("a"), Policy(), 0)
    _, second = decide(memory, finding("b"), Policy(), 0)
    assert first is not None
    assert second is not None


def word(step: Step, at_ms: int, count: int = 1, held: str = "", key: str = "k") -> Word:
    return Word("r", key, Last(at_ms, count, 1), step, held)


def test_what_the_log_says_was_told_counts_as_told() -> None:
    policy = Policy(step=Step.GUIDANCE, up_to=Step.STOP, cooldown_s=60)
    memory, first = decide(Memory(), finding(), policy, 5 * S)
    assert first is not None
    learnt = learn(Memory(), word(first.step, first.at_ms, first.count))
    assert learnt == memory
    assert decide(learnt, finding(), policy, 30 * S).decision is None
    again = decide(learnt, finding(), policy, 70 * S).decision
    assert again is not None
    assert (again.step, again.count) == (Step.INTERRUPT, 2)


def test_an_older_word_does_not_undo_a_newer_one() -> None:
    newer = learn(Memory(), word(Step.PAUSE, 100, 3))
    assert learn(newer, word(Step.GUIDANCE, 50)) == newer


def test_a_moment_that_comes_again_after_a_restart_is_told_once_however_short_the_cool_down() -> None:
    policy = Policy(cooldown_s=0)
    learnt = learn(Memory(), word(Step.OBSERVE, 5 * S))
    assert decide(learnt, finding(), policy, 5 * S).decision is None
    assert decide(learnt, finding(), policy, 5 * S + 1).decision is not None


LADDER = Policy(step=Step.GUIDANCE, up_to=Step.STOP, cooldown_s=60)


def test_a_step_that_could_not_be_taken_is_not_gone_beyond() -> None:
    memory, told = Memory(), []
    for minute, held in enumerate(("nobody", "nobody", "", "nobody", "")):
        memory, decision = decide(memory, finding(), LADDER, minute * MINUTE, lambda _, held=held: held)  # type: ignore[misc]
        assert decision is not None
        told.append((decision.step, decision.held))
    assert told == [
        (Step.GUIDANCE, "nobody"),
        (Step.GUIDANCE, "nobody"),
        (Step.GUIDANCE, ""),
        (Step.INTERRUPT, "nobody"),
        (Step.INTERRUPT, ""),
    ]


def test_a_step_that_was_not_taken_is_not_gone_beyond_after_a_restart_either() -> None:
    memory = learn(Memory(), word(Step.GUIDANCE, 0, held="no run is open"))
    decision = decide(memory, finding(), LADDER, MINUTE).decision
    assert decision is not None
    assert (decision.step, decision.count, decision.escalated) == (Step.GUIDANCE, 2, False)


def test_what_was_only_done_in_shadow_counts_in_shadow_alone() -> None:
    shadowed = word(Step.PAUSE, 0, 3, held="shadow")
    live = decide(learn(Memory(), shadowed), finding(), LADDER, MINUTE).decision
    assert live is not None
    assert (live.step, live.count) == (Step.GUIDANCE, 1)
    shadow = decide(learn(Memory(), shadowed, shadow=True), finding(), LADDER, MINUTE).decision
    assert shadow is not None
    assert (shadow.step, shadow.count) == (Step.STOP, 4)


def test_settings_that_begin_further_than_what_was_done_are_followed() -> None:
    memory = learn(Memory(), word(Step.OBSERVE, 0))
    decision = decide(memory, finding(), Policy(step=Step.PAUSE, cooldown_s=60), MINUTE).decision
    assert decision is not None
    assert decision.step is Step.PAUSE


def test_the_same_trouble_in_another_shape_is_told_at_once_and_gets_a_further_step_once_it_has_gone_on() -> None:
    memory, told = Memory(), []
    for number, at_ms in enumerate((0, 10 * S, 70 * S)):
        memory, decision = decide(memory, finding(f"k#{number}"), LADDER, at_ms)
        assert decision is not None
        told.append((decision.step, decision.escalated))
    assert told == [(Step.GUIDANCE, False), (Step.GUIDANCE, False), (Step.INTERRUPT, True)]


def test_only_so_many_findings_are_remembered() -> None:
    memory = Memory()
    for number in range(REMEMBERED * 2):
        memory = decide(memory, finding(str(number)), Policy(), number).memory
    assert len(memory.told) == len(memory.taken) == REMEMBERED
    assert decide(memory, finding(str(REMEMBERED * 2 - 1)), Policy(), REMEMBERED * 2).decision is None


def test_a_furthest_step_that_is_milder_than_the_first_is_refused_by_its_names() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"`up_to` \(guidance\) is milder than `step` \(pause\)"):
        msgspec.convert({"budget": {"step": "pause", "up_to": "guidance"}}, Guardian)


def test_whoever_is_paused_or_interrupted_is_told_why() -> None:
    for step in (Step.PAUSE, Step.INTERRUPT):
        decision = Decision(finding=finding(), step=step, at_ms=0, count=1, escalated=False)
        order = order_for(decision, "run-1")
        assert isinstance(order, PauseAgent | InterruptAgent)
        assert (order.run, order.reason) == ("run-1", "guardian: r: t")


def test_a_decision_says_how_often_it_was_made() -> None:
    policy = Policy(cooldown_s=0)
    memory = Memory()
    made: list[Decision] = []
    for at_ms in range(3):
        memory, decision = decide(memory, finding(), policy, at_ms)
        made += [decision] if decision else []
    assert [each.count for each in made] == [1, 2, 3]
