"""Given a log, when somebody asks for more, then the log alone decides."""

import datetime

import pytest

from contracts.errors import QuotaExceeded
from contracts.ledger import Ledger
from contracts.quotas import Account, Kind, Period, Quota, Quotas, Use, summed
from contracts.state import Sequenced, fold
from tests.quotas.telling import (
    NOON,
    Told,
    created,
    creating,
    failed,
    head_of,
    ledger,
    made,
    per_project,
    recovering,
    removed,
    spec,
    spent,
    started,
    stopped,
)

TWO = per_project(sandboxes=2)


def used(found: Ledger, kind: Kind = Kind.PROJECT, name: str = "web") -> Use:
    return next((line.used for line in found.lines(NOON) if (line.kind, line.name) == (kind, name)), Use())


def test_the_last_place_goes_to_the_first_in_the_log() -> None:
    found = ledger(TWO, made("a"), creating("b"), creating("c"))
    assert found.verdict("b") is None
    refused = found.verdict("c")
    assert isinstance(refused, QuotaExceeded)
    assert refused.message == (
        "quota: project 'web' has 2 of 2 sandboxes, and this takes 1 more: remove one, or have the quota raised"
    )
    assert refused.details == {"kind": "project", "name": "web", "resource": "sandboxes", "used": "2", "limit": "2"}


def test_whoever_is_refused_takes_no_place_from_those_that_come_after() -> None:
    found = ledger(TWO, made("a"), made("b"), creating("c"), removed("a"), creating("d"))
    assert found.verdict("c") is not None
    assert found.verdict("d") is None
    assert used(found) == Use(sandboxes=2, cpus=2, memory_mb=2048)


def test_a_verdict_is_over_with_the_next_event() -> None:
    assert ledger(TWO, made("a"), made("b"), creating("c"), failed("c")).verdict("c") is None


def test_what_runs_counts_even_if_todays_quota_would_not_have_let_it() -> None:
    found = ledger(per_project(sandboxes=1), made("a"), made("b"))
    assert used(found).sandboxes == 2


@pytest.mark.parametrize("end", [removed("a"), failed("a")], ids=["removed", "never made"])
def test_what_is_gone_makes_room(end: Told) -> None:
    found = ledger(per_project(sandboxes=1), creating("a"), end)
    assert found.would_create(spec(), "gateway/alice", NOON) is None
    assert used(found) == Use()


def test_a_stopped_sandbox_keeps_its_place_and_gives_back_cpus_and_memory() -> None:
    found = ledger(TWO, made("a", spec(cpus=1.5, memory_mb=4096)), stopped("a"))
    assert used(found) == Use(sandboxes=1)


def test_a_sandbox_that_died_for_good_keeps_its_place() -> None:
    assert used(ledger(TWO, made("a"), failed("a"))) == Use(sandboxes=1)


def test_starting_again_needs_cpus_and_no_place() -> None:
    quotas = per_project(sandboxes=1, cpus=1)
    found = ledger(quotas, made("a"), stopped("a"))
    assert found.would_start("a") is None
    other = ledger(per_project(cpus=1), made("a"), stopped("a"), made("b"))
    refused = other.would_start("a")
    assert refused is not None
    assert refused.details["resource"] == "cpus"


@pytest.mark.parametrize("again", [started("a"), recovering("a")], ids=["started", "recovered"])
def test_two_that_start_again_at_once_do_not_both_get_the_last_cpu(again: Told) -> None:
    found = ledger(per_project(cpus=1), made("a"), stopped("a"), made("b"), stopped("b"), started("b"), again)
    assert found.verdict("a") is not None


def test_a_recovery_of_what_runs_is_never_refused() -> None:
    found = ledger(per_project(sandboxes=1, cpus=1), made("a"), recovering("a"))
    assert found.verdict("a") is None
    assert found.would_start("a") is None
    assert used(found) == Use(sandboxes=1, cpus=1, memory_mb=1024)


def test_cpus_and_memory_are_summed_exactly() -> None:
    tenths = [told for number in range(100) for told in made(f"s{number}", spec(cpus=0.7, memory_mb=700))]
    found = ledger(per_project(cpus=70), tenths)
    assert used(found) == Use(sandboxes=100, cpus=70, memory_mb=70_000)
    assert found.verdict("s99") is None
    refused = found.would_create(spec(cpus=0.5), "", NOON)
    assert refused is not None
    assert "70 of 70 CPUs" in refused.message


def test_what_fits_exactly_fits() -> None:
    assert ledger(per_project(cpus=3.3), made("a", spec(cpus=1.1)), creating("b", spec(cpus=2.2))).verdict("b") is None


def test_a_limit_is_reached_by_costs_that_add_up_to_it() -> None:
    tenths = [spent("a", 0.1) for _ in range(10)]
    assert ledger(per_project(spend_usd=1), made("a"), tenths).spent_out("a", NOON) is not None
    assert ledger(per_project(spend_usd=1), made("a"), tenths[:9]).spent_out("a", NOON) is None


def test_memory_is_a_limit_too() -> None:
    found = ledger(per_project(memory_mb=5000), made("a", spec(memory_mb=4096)))
    assert found.would_create(spec(memory_mb=904), "", NOON) is None
    refused = found.would_create(spec(memory_mb=905), "", NOON)
    assert refused is not None
    assert "4096 of 5000 MB of memory, and this takes 905 more" in refused.message


def test_who_is_named_has_limits_of_their_own_and_none_of_the_general() -> None:
    quotas = Quotas(principal=Quota(sandboxes=1, cpus=1), principals={"bob": Quota(sandboxes=2)})
    found = ledger(quotas, made("a", by="gateway/bob"), made("b", spec(cpus=8), by="gateway/bob"))
    assert found.verdict("b") is None
    assert found.would_create(spec(), "gateway/bob", NOON) is not None
    assert found.would_create(spec(), "gateway/alice", NOON) is None


def test_everything_without_a_project_shares_one_quota_and_so_does_everybody_without_a_name() -> None:
    found = ledger(Quotas(project=Quota(sandboxes=1)), made("a", spec(None)))
    refused = found.would_create(spec(None), "client", NOON)
    assert refused is not None
    assert "what has no project has 1 of 1" in refused.message
    nameless = ledger(Quotas(principal=Quota(sandboxes=1)), made("a", by="client"))
    refused = nameless.would_create(spec(), "client", NOON)
    assert refused is not None
    assert "whoever gives no name has 1 of 1" in refused.message


def test_spending_counts_for_the_project_and_the_owner_of_the_sandbox() -> None:
    found = ledger(Quotas(), made("a"), spent("a", 1.5), spent("a", 0.5))
    assert {(line.kind, line.name, line.spent_usd) for line in found.lines(NOON)} == {
        (Kind.PROJECT, "web", 2.0),
        (Kind.PRINCIPAL, "alice", 2.0),
    }


def test_what_is_spent_stays_spent_when_its_sandbox_is_removed() -> None:
    found = ledger(per_project(spend_usd=2), made("a"), spent("a", 1), removed("a"), spent("a", 1), made("b"))
    refused = found.spent_out("b", NOON)
    assert refused is not None
    assert refused.message == (
        "quota: agents of project 'web' have spent 2.0000 of 2 USD this month: "
        "wait for the next month (UTC), or have the quota raised"
    )
    assert found.would_create(spec(), "", NOON) is not None
    assert found.would_create(spec("other"), "", NOON) is None


@pytest.mark.parametrize(
    ("period", "later"),
    [
        (Period.DAY, datetime.timedelta(hours=12)),
        (Period.MONTH, datetime.timedelta(hours=12)),
        (Period.EVER, datetime.timedelta(days=3650)),
    ],
)
def test_a_new_period_begins_with_nothing_spent(period: Period, later: datetime.timedelta) -> None:
    found = ledger(per_project(spend_usd=1, spend_per=period), made("a"), spent("a", 1))
    assert found.spent_out("a", NOON) is not None
    assert (found.spent_out("a", NOON + later) is None) == (period is not Period.EVER)


def test_a_clock_that_jumps_over_midnight_and_back_loses_nothing() -> None:
    evening, night = NOON + datetime.timedelta(hours=11, minutes=30), NOON + datetime.timedelta(hours=12, minutes=30)
    quotas = per_project(spend_usd=3, spend_per="day")
    found = ledger(quotas, made("a"), spent("a", 1, evening), spent("a", 5, night), spent("a", 2, evening))
    assert found.spent_out("a", evening) is not None


def test_a_cost_that_is_no_cost_is_not_counted() -> None:
    found = ledger(per_project(spend_usd=1), made("a"), spent("a", -5), spent("a", 1))
    assert found.spent_out("a", NOON) is not None


def test_an_event_counts_once() -> None:
    found = ledger(TWO, made("a"))
    found.apply(1, head_of(creating("b"), 1))
    assert used(found).sandboxes == 1


def test_a_sandbox_whose_beginning_is_forgotten_counts_as_the_read_model_has_it() -> None:
    events = [Sequenced(number, head_of(told, number)) for number, told in enumerate(made("a"), start=1)]
    state = fold(events)
    assert state is not None
    found = Ledger(TWO)
    found.begin(state)
    assert used(found, Kind.PRINCIPAL, "alice") == used(found) == Use(sandboxes=1, cpus=1, memory_mb=1024)


def test_what_is_named_is_listed_without_any_use() -> None:
    quotas = Quotas(projects={"web": Quota(sandboxes=3)}, principals={"bob": Quota(cpus=1)})
    assert [Account(line.kind, line.name) for line in ledger(quotas).lines(NOON)] == [
        Account(Kind.PRINCIPAL, "bob"),
        Account(Kind.PROJECT, "web"),
    ]


def test_what_several_logs_count_is_summed_up() -> None:
    logs = [ledger(TWO, made("a"), spent("a", 1.5)), ledger(TWO, made("b"), made("c", spec("other")))]
    lines = {(line.kind, line.name): line for line in summed(line for log in logs for line in log.lines(NOON))}
    assert lines[Kind.PROJECT, "web"].used == Use(sandboxes=2, cpus=2, memory_mb=2048)
    assert lines[Kind.PRINCIPAL, "alice"].used.sandboxes == 3
    assert lines[Kind.PRINCIPAL, "alice"].spent_usd == 1.5
    assert list(lines) == sorted(lines)


def test_half_made_ones_count() -> None:
    assert used(ledger(TWO, creating("a"), creating("b"), created("b"))).sandboxes == 2
