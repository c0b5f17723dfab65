"""The audit costs whoever writes little, and does not fall behind them for that."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.replay.audit import pace
from services.replay.audit.pace import LONGEST_REST_S, NO_REST_AFTER, REST, Stand, Waiting, patience_s, rest_s
from tests.audit.rig import auditing, write
from tests.bus.servers import nats_in

PATIENCE_S = 10.0
NEAR = Stand(first=1, last=1000, next=1001)
PAGE = 1000
IDLE_S = 0.2
SECONDS = st.floats(0, 1000)


class Moment(NamedTuple):
    stand: Stand
    waits_s: float
    """Of the first event that was not read, in truth."""
    rest_s: float
    worked_s: float


def followed(per_s: float, page_s: float, *, holds: int = 10**9, for_s: float = 1200) -> Iterator[Moment]:
    """A log that is written to without an end, and drops all but the last events, page by page."""
    now, following, waiting = 1.0, 1, Waiting()
    while now < for_s:
        last = int(now * per_s)
        waiting.ends(last, now)
        read = min(last + 1 - following, PAGE)
        worked = page_s * read / PAGE
        now, following = now + worked, following + read
        stand = Stand(max(1, last + 1 - holds), last, following)
        rest = rest_s(worked, waiting.waits_s(following, now), PATIENCE_S, stand)
        yield Moment(stand, max(now - following / per_s, 0.0), rest, worked)
        now += rest if read == PAGE else max(rest, IDLE_S)


def test_who_is_not_behind_leaves_nine_tenths_of_the_time_to_others() -> None:
    moments = list(followed(per_s=400, page_s=0.05))
    assert all(moment.rest_s == pytest.approx(moment.worked_s * REST) for moment in moments)
    assert max(moment.waits_s for moment in moments) < 3


@pytest.mark.parametrize("per_s", [1200, 2000, 4000])
def test_what_is_written_without_a_pause_is_read_within_a_few_times_of_what_it_may_wait(per_s: int) -> None:
    """With a full rest after each page, 833 events a second would be read."""
    moments = list(followed(per_s, page_s=0.2))
    assert max(moment.waits_s for moment in moments) < 45
    assert sum(moment.rest_s for moment in moments) > 0


def test_what_the_limits_are_about_to_drop_is_read_without_a_rest() -> None:
    for moment in followed(per_s=3000, page_s=0.2, holds=15_000):
        assert moment.stand.next >= moment.stand.first, "dropped, and nobody has read it"


@given(SECONDS, SECONDS, SECONDS, st.floats(0.1, 100))
def test_a_rest_has_its_bounds_and_is_the_shorter_the_longer_something_waits(
    worked: float, waits: float, more: float, patience: float
) -> None:
    rest = rest_s(worked, waits, patience, NEAR)
    assert 0 <= rest_s(worked, waits + more, patience, NEAR) <= rest <= min(worked * REST, LONGEST_REST_S)
    assert rest_s(worked, patience * NO_REST_AFTER + more, patience, NEAR) == 0


def test_a_seldom_checkpoint_is_no_leave_to_fall_behind_and_a_frequent_one_none_to_be_in_the_way() -> None:
    assert [patience_s(each) for each in (0.05, 3.0, 10.0, 86_400.0)] == [1.0, 3.0, 10.0, 10.0]


def test_what_waits_is_as_old_as_the_first_time_that_it_was_seen() -> None:
    waiting = Waiting()
    for second in range(10):
        waiting.ends(last=100 * second, now=float(second))
    assert waiting.waits_s(following=1, now=9.0) == 8.0
    assert waiting.waits_s(following=401, now=9.0) == 4.0
    assert waiting.waits_s(following=901, now=9.0) == 0.0


async def test_the_audit_says_how_far_it_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, Stand]] = []

    def remembered(worked_s: float, waits_s: float, patience_s: float, stand: Stand) -> float:
        asked.append((patience_s, stand))
        return 0.0

    monkeypatch.setattr(pace, "rest_s", remembered)
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own") as audit:
            last = await write(writer, 35)
            await audit.has_proven(last)
    assert {patience for patience, _ in asked} == {1.0}
    assert all(stand.first == 1 < stand.next for _, stand in asked)
