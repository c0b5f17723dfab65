"""What is remembered of a life: when it began is read off the wall clock once."""

import datetime
from collections.abc import Callable
from typing import cast

import pytest
from msgspec.structs import replace

from contracts.spec import Isolation
from contracts.state import SandboxState, fold
from infra import clock
from infra.lifecycles import Lifecycles
from services.health_monitor.lives import Lives
from tests.contracts.histories import CREATED, CREATING, STARTED, numbered


class Told:
    """As much of `Lifecycles` as says what there is."""

    def on_change(self, call: Callable[[SandboxState], None]) -> None:
        self.tell = call


def begun(instance: str, at: datetime.datetime) -> SandboxState:
    state = fold(numbered([CREATING, CREATED, STARTED]))
    assert state is not None
    return replace(state, instance=instance, started_at=at)


@pytest.mark.parametrize("jump_s", [3600, -3600])
def test_time_is_counted_for_each_life_and_not_by_a_clock_that_is_set(
    monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    told, wall = Told(), clock.now
    state = begun("life-1", clock.now() - datetime.timedelta(minutes=5))
    assert state.node is not None
    lives = Lives(cast("Lifecycles", told), state.node, set(Isolation))

    def passed_s() -> float:
        life = lives.get(state.sandbox)
        assert life is not None
        return clock.steady() - life.began

    told.tell(state)
    assert passed_s() == pytest.approx(300, abs=30)
    monkeypatch.setattr(clock, "now", lambda: wall() + datetime.timedelta(seconds=jump_s))
    told.tell(state)
    assert passed_s() == pytest.approx(300, abs=30)
    # What begins when the clock is wrong has all of its time before it.
    told.tell(begun("life-2", clock.now()))
    assert passed_s() == pytest.approx(0, abs=30)
