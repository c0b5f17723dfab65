"""Figures: plain numbers with bounded labels, as Prometheus reads them."""

import pytest

from infra.observing import catalogue, exposition
from infra.observing.figures import MOST_CHILDREN, OTHER, Counter, Gauge, Histogram, samples
from infra.observing.presence import Presence


def test_a_value_that_nobody_knows_is_counted_as_other() -> None:
    counter = Counter("c", "c", "x", {"outcome": ("good", "bad")})
    for value in ("good", "s-1234", "s-5678"):
        counter.add(value)
    assert dict(samples(counter)) == {("good",): 1, (OTHER,): 2}


def test_nobody_can_make_a_figure_grow_without_end() -> None:
    counter = Counter("c", "c", "x", {"route": None})
    for number in range(3 * MOST_CHILDREN):
        counter.add(str(number))
    assert len(samples(counter)) == MOST_CHILDREN + 1
    assert sum(sample.value for sample in samples(counter)) == 3 * MOST_CHILDREN


def test_what_several_know_is_added_up_and_gone_with_them() -> None:
    gauge = Gauge("g", "g", "x")
    with gauge.asking(lambda: 2), gauge.asking(lambda: 3):
        assert samples(gauge) == [((), 5)]
    assert samples(gauge) == [((), 0)]


def test_what_is_not_to_be_added_up_is_shown_as_the_worst_of_several() -> None:
    up, age = Gauge("u", "u", "x", fold=min), Gauge("a", "a", "x", fold=max)
    with up.asking(lambda: 1), up.asking(lambda: 0), age.asking(lambda: 7), age.asking(lambda: 500):
        assert (samples(up), samples(age)) == ([((), 0)], [((), 500)])


@pytest.mark.parametrize("figure", [catalogue.keeper_up, catalogue.audit_trouble, catalogue.checkpoint_age])
def test_whatever_an_alert_compares_is_the_worst_of_several_partitions(figure: Gauge) -> None:
    worst, other = (0, 1) if figure is catalogue.keeper_up else (1, 0)
    with figure.asking(lambda: worst), figure.asking(lambda: other), figure.asking(lambda: worst):
        assert samples(figure) == [((), worst)]


def test_a_spread_counts_each_value_under_the_first_bound_that_holds_it() -> None:
    histogram = Histogram("h", "h", "x", bounds=(1.0, 2.0))
    for value in (-1.0, 1.0, 1.5, 7.0):
        histogram.observe(value)
    line = histogram.of()
    assert (line.counts, line.total) == ([2, 1, 1], 9.5)


def test_every_name_is_one_figure() -> None:
    names = [figure.name for figure in catalogue.ALL]
    assert len(names) == len(set(names))
    assert all(name.startswith("cloche_") for name in names)


@pytest.mark.parametrize("figure", catalogue.ALL, ids=lambda figure: figure.name)
def test_no_label_names_a_sandbox_a_command_or_a_person(figure: Counter | Gauge | Histogram) -> None:
    assert not set(figure.labels) & {"sandbox", "command", "exec", "run", "principal", "id", "path"}


def test_only_what_a_process_has_is_shown_and_from_nought(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Presence()
    here.expect("executor")
    monkeypatch.setattr(exposition, "presence", lambda: here)
    text = exposition.exposition().decode()
    assert 'cloche_orders_settled_total{outcome="dead",service="executor"} 0.0' in text
    assert 'cloche_events_stored_total{family="audit",kind="damaged"}' in text
    assert "cloche_exec_start_seconds_bucket" in text
    assert "cloche_gateway_requests" not in text
