"""What follows from what was seen."""

import datetime

import pytest
from msgspec.structs import replace

from contracts.events.health import DeathAction, DeathCause
from contracts.events.sandbox import SandboxCreating
from contracts.spec import Isolation, Resources, Restart, RestartPolicy, SandboxSpec
from contracts.state import SandboxState, fold
from services.health_monitor.decide import (
    MB,
    ODD_S,
    ORDERED_S,
    Ending,
    Seen,
    Verdict,
    action_for,
    beyond_disk,
    beyond_idle,
    beyond_time,
    death,
    failure_of,
    judge,
)
from services.spawner.flushing import LAST_FLUSH_S
from tests.contracts.histories import CREATED, STARTED, numbered

KILLED = Ending(DeathCause.KILLED, "init ended with code 137", 137, 9)
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def running(spec: SandboxSpec | None = None) -> SandboxState:
    creating = SandboxCreating(spec=spec or SandboxSpec(), isolation=Isolation.LOCAL, node="n1")
    state = fold(numbered([creating, CREATED, STARTED]))
    assert state is not None
    return state


def later(state: SandboxState, **passed: float) -> datetime.datetime:
    assert state.started_at is not None
    return state.started_at + datetime.timedelta(**passed)


@pytest.mark.parametrize("there", ["running", "paused"])
def test_what_answers_under_its_own_name_is_well(there: str) -> None:
    assert judge(running(), Seen(there, "life-1"), 0).verdict == Verdict.WELL


def test_what_is_there_and_does_not_answer_is_ill_and_not_dead() -> None:
    judgement = judge(running(), Seen("error", "life-1", "init is alive but does not answer"), 1000)
    assert (judgement.verdict, judgement.reason) == (Verdict.ILL, "init is alive but does not answer")


def test_what_ended_without_an_order_is_dead_at_once() -> None:
    judgement = judge(running(), Seen("stopped", "life-1", ending=KILLED), 0)
    assert (judgement.verdict, judgement.ending) == (Verdict.DEAD, KILLED)


@pytest.mark.parametrize(
    ("seen", "patience_s"),
    [
        (None, ODD_S),
        (Seen("stopped"), ORDERED_S),
        (Seen("stopped", "life-1"), ORDERED_S),
        (Seen("running", "life-2"), ODD_S),
        (Seen("stopped", "life-2", ending=KILLED), ODD_S),
    ],
    ids=["absent", "stopped by an order", "being stopped", "another life", "another life, dead"],
)
def test_what_an_order_may_be_doing_is_dead_only_when_it_stays_so(seen: Seen | None, patience_s: float) -> None:
    assert judge(running(), seen, patience_s - 1).verdict == Verdict.ODD
    judgement = judge(running(), seen, patience_s)
    assert judgement.verdict == Verdict.DEAD
    assert judgement.ending is not None
    assert judgement.ending.cause == DeathCause.UNKNOWN
    assert judgement.ending.looked_at


def test_a_removal_is_no_death_however_long_its_last_files_take() -> None:
    """It is stopped first; then they are told, and only then is it removed."""
    assert judge(running(), Seen("stopped"), LAST_FLUSH_S).verdict == Verdict.ODD


@pytest.mark.parametrize(
    ("policy", "cause", "code", "action"),
    [
        ("never", DeathCause.KILLED, 137, "stop"),
        ("on_failure", DeathCause.KILLED, 137, "recover"),
        ("on_failure", DeathCause.OOM, 137, "recover"),
        ("on_failure", DeathCause.EXIT, 1, "recover"),
        ("on_failure", DeathCause.EXIT, 0, "stop"),
        ("on_failure", DeathCause.ENGINE_LOST, 0, "recover"),
        ("on_failure", DeathCause.UNKNOWN, None, "recover"),
        ("always", DeathCause.EXIT, 0, "recover"),
        ("always", DeathCause.DISK, 137, "stop"),
    ],
)
def test_a_policy_decides_what_is_asked_for(policy: str, cause: DeathCause, code: int | None, action: str) -> None:
    assert action_for(Restart(policy=RestartPolicy(policy)), cause, code) == action


def test_no_attempts_are_no_recovery() -> None:
    assert action_for(Restart(max_attempts=0), DeathCause.KILLED, 137) == DeathAction.STOP


@pytest.mark.parametrize(("used", "wait_ms"), [(0, 0), (1, 1000), (2, 2000), (3, 4000), (50, 60_000)])
def test_each_further_attempt_waits_longer(used: int, wait_ms: int) -> None:
    state = replace(running(), retries=used)
    now = later(state, seconds=30)
    died = death(state, KILLED, now=now, booted=LONG_AGO, over_disk=False)
    assert died.due == now + datetime.timedelta(milliseconds=wait_ms)
    assert (died.instance, died.exit_code, died.signal, died.looked_at) == ("life-1", 137, 9, ())


def test_what_ran_for_long_is_recovered_at_once_again() -> None:
    state = replace(running(), retries=2)
    now = later(state, minutes=11)
    assert death(state, KILLED, now=now, booted=LONG_AGO, over_disk=False).due == now


def test_a_life_from_before_the_machine_was_started_died_with_it() -> None:
    state = running()
    unknown = Ending(DeathCause.UNKNOWN, "how it ended is not known", looked_at=("everything",))
    died = death(state, unknown, now=later(state, hours=1), booted=later(state, minutes=30), over_disk=True)
    assert (died.cause, died.action, died.looked_at) == (DeathCause.REBOOTED, "recover", ())
    assert "how it ended is not known" in died.detail
    died = death(state, unknown, now=later(state, hours=1), booted=later(state, minutes=-30), over_disk=False)
    assert (died.cause, died.looked_at) == (DeathCause.UNKNOWN, ("everything",))


def test_what_was_over_its_disk_died_of_it_and_is_not_brought_back_to_it() -> None:
    state = running()
    died = death(state, KILLED, now=later(state, seconds=1), booted=LONG_AGO, over_disk=True)
    assert (died.cause, died.action) == (DeathCause.DISK, "stop")
    assert failure_of(died).details == {"cause": "disk"}


def test_what_has_run_for_its_time_is_stopped_with_grace() -> None:
    state = running(SandboxSpec(resources=Resources(timeout_ms=60_000)))
    assert beyond_time(state, 60_000) is None
    excess = beyond_time(state, 61_000)
    assert excess is not None
    assert (excess.fact.limit, excess.fact.allowed, excess.fact.used) == ("timeout", 60_000, 61_000)
    assert (excess.failure.code, excess.fact.action, excess.grace_ms > 0) == ("SANDBOX_TIMEOUT", "stop", True)


def test_a_full_disk_is_ended_without_grace() -> None:
    state = running(SandboxSpec(resources=Resources(disk_mb=1024)))
    assert beyond_disk(state, 1024 * MB) is None
    excess = beyond_disk(state, 1024 * MB + 1)
    assert excess is not None
    assert (excess.fact.limit, excess.fact.action, excess.grace_ms) == ("disk", "kill", 0)
    assert (excess.failure.code, excess.failure.details["limit"]) == ("SANDBOX_RESOURCE_LIMIT_EXCEEDED", "disk")


def test_idleness_stops_only_what_asked_for_it() -> None:
    assert beyond_idle(running(), 1e12) is None
    asked = running(SandboxSpec(idle_stop_ms=5000))
    assert beyond_idle(asked, 5000) is None
    excess = beyond_idle(asked, 5001)
    assert excess is not None
    assert (excess.fact.limit, excess.failure.details["limit"]) == ("idle", "idle")
