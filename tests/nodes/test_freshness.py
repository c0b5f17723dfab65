"""A process that was stopped sends nothing of what it had in hand, until its connection is a new one."""

from pathlib import Path

import pytest

from infra.bus import freshness
from infra.bus.freshness import STALE_S, Freshness
from tests.bus.servers import nats_in, until


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(freshness, "_now", lambda: self.now)


def _was_stopped(fresh: Freshness) -> bool:
    return fresh.was_stopped


def test_a_stop_is_remembered_whoever_notices_it_and_forgotten_with_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, fresh = Clock(monkeypatch), Freshness()
    clock.now += 2 * STALE_S
    assert not _was_stopped(fresh)
    fresh.tick()
    clock.now += 2 * STALE_S
    assert _was_stopped(fresh)
    fresh.tick()
    assert _was_stopped(fresh)
    fresh.renew()
    assert not _was_stopped(fresh)


async def test_what_waits_in_a_process_that_was_stopped_is_never_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nats_in(tmp_path) as server:
        bus, watcher = await server.connect("executor"), await server.connect("admin")
        heard: list[bytes] = []
        await watcher.tap("cloche.log.sb.command.>", lambda _subject, _reply, data, _raw: heard.append(data))
        clock = Clock(monkeypatch)
        bus.client.freshness.tick()
        clock.now += 2 * STALE_S
        await bus.publish("cloche.log.sb.command.output.e", b"late")
        await until(lambda: bus.epoch == 2)
        await bus.publish("cloche.log.sb.command.output.e", b"after a look")
        await until(lambda: bool(heard))
        assert heard == [b"after a look"]
