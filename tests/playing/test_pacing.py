"""When what is past is due again."""

import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import Invalid
from contracts.pacing import Pace, Timeline

BEGINNING = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

seconds = st.integers(0, 10**6).map(lambda milliseconds: milliseconds / 1000)
speeds = st.floats(0.01, 10_000)
ORDERS = st.one_of(
    st.tuples(st.just("pause"), st.just(0.0)),
    st.tuples(st.just("resume"), st.just(0.0)),
    st.tuples(st.just("speed"), speeds),
    st.tuples(st.just("wait"), st.floats(0, 100)),
)


def at(second: float) -> datetime.datetime:
    return BEGINNING + datetime.timedelta(seconds=second)


def places(times: list[float], max_idle_s: float | None = None) -> list[float]:
    timeline = Timeline(max_idle_s)
    return [timeline.put(at(time)) for time in times]


def test_a_silence_counts_as_the_longest_that_is_allowed() -> None:
    assert places([5, 6, 100, 100.5], 2.0) == [0, 1, 3, 3.5]
    assert places([5, 6, 100, 100.5]) == [0, 1, 95, 95.5]


def test_a_time_that_goes_back_is_no_gap_and_makes_none_later() -> None:
    assert places([0, 10, 5, 9, 11]) == [0, 10, 10, 10, 11]


@given(st.lists(seconds, min_size=1), st.one_of(st.none(), st.floats(0, 100)))
def test_places_never_go_back_nor_further_than_the_times_do(times: list[float], max_idle_s: float | None) -> None:
    found = places(times, max_idle_s)
    assert found[0] == 0
    for before, after in pairwise(found):
        assert 0 <= after - before <= (float("inf") if max_idle_s is None else max_idle_s + 1e-6)
    assert found[-1] <= max(times) - times[0] + 1e-6


@given(st.lists(seconds, min_size=2), st.data())
def test_a_copy_goes_on_as_the_original_does(times: list[float], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(times) - 1))
    timeline = Timeline(3.0)
    for time in times[:cut]:
        timeline.put(at(time))
    copy = timeline.copy()
    assert [copy.put(at(time)) for time in times[cut:]] == places(times, 3.0)[cut:]


def test_speed_and_pause_move_what_is_due() -> None:
    pace = Pace(now=100.0, speed=4)
    assert pace.wait_s(8.0, 100.0) == 2.0
    assert pace.wait_s(8.0, 101.0) == 1.0
    pace.pause(101.0)
    assert pace.wait_s(8.0, 500.0) is None
    assert pace.wait_s(4.0, 500.0) == 0.0
    pace.resume(500.0)
    assert pace.wait_s(8.0, 500.0) == 1.0
    pace.hasten(1.0, 500.5)
    assert pace.at(500.5) == 6.0
    assert pace.wait_s(8.0, 500.5) == 2.0


def test_a_seek_goes_on_from_there_and_stays_paused_if_it_was() -> None:
    pace = Pace(now=0.0)
    pace.seek(50.0, 10.0)
    assert pace.at(11.0) == 51.0
    pace.pause(11.0)
    pace.seek(5.0, 12.0)
    assert pace.at(99.0) == 5.0


def test_a_step_makes_one_due_and_nothing_later() -> None:
    pace = Pace(now=0.0)
    pace.step_to(7.0, 1.0)
    assert pace.wait_s(7.0, 1.0) == 0.0
    assert pace.wait_s(7.1, 1000.0) is None


def test_what_came_late_does_not_make_the_rest_come_in_a_rush() -> None:
    pace = Pace(now=0.0, speed=2.0)
    pace.catch_up(10.0, 5.2, slack_s=0.5)
    assert pace.at(5.2) == pytest.approx(10.4)
    pace.catch_up(10.0, 300.0, slack_s=0.5)
    assert pace.wait_s(12.0, 300.0) == 1.0


@pytest.mark.parametrize("speed", [0, -1, 10_001, float("nan"), float("inf")])
def test_an_impossible_speed_is_refused(speed: float) -> None:
    with pytest.raises(Invalid):
        Pace(now=0.0, speed=speed)
    pace = Pace(now=0.0)
    with pytest.raises(Invalid):
        pace.hasten(speed, 1.0)


@given(st.lists(ORDERS, max_size=30))
def test_the_hand_moves_by_the_time_that_was_played_times_the_speed(orders: list[tuple[str, float]]) -> None:
    now, place, speed, paused = 0.0, 0.0, 1.0, False
    pace = Pace(now=now)
    for order, value in orders:
        match order:
            case "pause":
                pace.pause(now)
                paused = True
            case "resume":
                pace.resume(now)
                paused = False
            case "speed":
                pace.hasten(value, now)
                speed = value
            case _:
                now += value
                place += 0 if paused else value * speed
        assert pace.at(now) == pytest.approx(place, abs=1e-3)
    waiting = pace.wait_s(place + 10, now)
    if paused:
        assert waiting is None
    else:
        assert waiting == pytest.approx(10 / speed, rel=1e-3, abs=1e-3)
