"""A service that fails is counted, is not ready, and is started again."""

import asyncio
from typing import NamedTuple

import pytest

from contracts.errors import Unavailable
from infra.observing import catalogue
from infra.observing.presence import Presence
from infra.service import Ready
from services.cli import supervision

NAME = "guardian"


class Life(NamedTuple):
    restarts: float
    ready_before: float
    ready_after: float


class Failing:
    """Takes orders and fails, twice; then it stays."""

    name = NAME

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.stays = asyncio.Event()

    async def serve(self, ready: Ready) -> None:
        is_ready = catalogue.ready.of(NAME)
        before = is_ready.now()
        ready()
        self.lives.append(Life(catalogue.restarts.of(NAME).value, before, is_ready.now()))
        if len(self.lives) < 3:
            raise Unavailable("for a test")
        self.stays.set()
        await asyncio.Event().wait()


async def test_a_service_is_not_ready_from_each_failure_that_is_counted_until_it_takes_orders_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Presence()
    monkeypatch.setattr(supervision, "presence", lambda: here)
    monkeypatch.setattr(supervision, "RESTART_S", 0.01)
    before, app = catalogue.restarts.of(NAME).value, Failing()
    supervised = asyncio.create_task(supervision._supervise(app, asyncio.Event()))
    await app.stays.wait()
    supervised.cancel()
    await asyncio.gather(supervised, return_exceptions=True)
    assert app.lives == [Life(before + failures, 0, 1) for failures in range(3)]
