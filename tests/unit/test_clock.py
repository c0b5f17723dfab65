"""The clock that nobody can set, and where the log's moments are on it."""

import datetime

import pytest

from infra import clock

HOUR = datetime.timedelta(hours=1)


def test_a_moment_of_the_log_is_as_long_ago_as_the_wall_clock_says() -> None:
    assert clock.steady() - clock.steady_at(clock.now() - HOUR) == pytest.approx(3600, abs=5)


def test_what_the_log_tells_is_past_even_where_its_clock_was_ahead() -> None:
    before = clock.steady()
    assert before <= clock.steady_at(clock.now() + HOUR) <= clock.steady()


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_moment_that_was_seen_does_not_move_when_the_clock_is_set(
    monkeypatch: pytest.MonkeyPatch, jump: datetime.timedelta
) -> None:
    moments, begun = clock.Moments(), clock.now()
    first = moments.steady_at("sb", begun)
    wall = clock.now
    monkeypatch.setattr(clock, "now", lambda: wall() + jump)
    assert moments.steady_at("sb", begun) == first
    assert moments.steady_at("sb", clock.now()) == pytest.approx(clock.steady(), abs=5), "another one, seen now"


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_what_was_told_just_before_the_clock_was_set_is_not_old_where_it_is_first_seen_after(
    monkeypatch: pytest.MonkeyPatch, jump: datetime.timedelta
) -> None:
    told, wall = clock.now(), clock.now
    monkeypatch.setattr(clock, "now", lambda: wall() + jump)
    assert clock.steady_at(told) == pytest.approx(clock.steady(), abs=5)
    told_after = clock.now() - HOUR / 2
    assert clock.steady() - clock.steady_at(told_after) == pytest.approx(1800, abs=5)
