"""Of some services there is one, however many nodes there are."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from infra import duty
from infra.duty import OnDuty
from infra.embedded import secrets
from infra.service import Ready
from tests.bus.servers import Server, nats_in
from tests.services.node import settings_in


class Lamp:
    name = "guardian"

    def __init__(self) -> None:
        self.on = asyncio.Event()

    async def serve(self, ready: Ready) -> None:
        self.on.set()
        ready()
        try:
            await asyncio.Event().wait()
        finally:
            self.on.clear()


class Spare(Lamp):
    """Fails when it is first asked to stand by."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.prepared = asyncio.Event()

    async def stand_by(self) -> None:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("it does not fit")
        self.prepared.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert not self.on.is_set()
            self.prepared.clear()


@asynccontextmanager
async def _serving(server: Server, place: Path, node: str, lamp: Lamp) -> AsyncIterator[asyncio.Task[None]]:
    values = {"CLOCHE_NODE": node, "CLOCHE_URL": server.url, "CLOCHE_CREDS": str(secrets.directory(server.data))}
    ready = asyncio.Event()
    serving = asyncio.create_task(OnDuty(lamp, settings_in(place / node, **values)).serve(ready.set))
    try:
        await ready.wait()
        yield serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_one_is_on_duty_the_other_stands_by_and_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duty, "RENEW_S", 0.2)
    first, second = Lamp(), Lamp()
    async with (
        nats_in(tmp_path / "hub", nodes=("n1", "n2")) as server,
        _serving(server, tmp_path, "n1", first) as one,
        _serving(server, tmp_path, "n2", second),
    ):
        assert first.on.is_set()
        assert not second.on.is_set()
        one.cancel()
        async with asyncio.timeout(60):
            await second.on.wait()
        assert not first.on.is_set()


async def test_who_stands_by_may_prepare_for_its_duty_and_that_ends_before_the_duty_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duty, "RENEW_S", 0.2)
    first, second = Spare(), Spare()
    async with (
        nats_in(tmp_path / "hub", nodes=("n1", "n2")) as server,
        _serving(server, tmp_path, "n1", first) as one,
        _serving(server, tmp_path, "n2", second),
    ):
        async with asyncio.timeout(60):
            await second.prepared.wait()
            assert second.asked == 2
            one.cancel()
            await second.on.wait()
        assert not second.prepared.is_set()
        assert first.asked == 0
