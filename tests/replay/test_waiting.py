"""Whoever asks for little does not wait for those who ask for much."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from contracts import subjects
from contracts.past import GetStateAt, StateAt
from contracts.replays import ListReplays, ReplayList
from infra.bus.broker import make_broker
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.client.asking import ask
from infra.log.live import LiveView
from services.replay.handlers import Historian
from services.replay.past.folder import AT_ONCE, Folder
from services.replay.past.snapshots import Snapshots
from services.replay.past.store import SnapshotStore
from services.replay.routes import add_routes
from services.replay.screens import player
from services.replay.screens.player import ScreenPlayer, Spacing
from services.replay.screens.remembered import RememberedScreens
from tests.bus.servers import nats_in, until
from tests.contracts.histories import begun, output
from tests.replay.logs import UP, fold_all, write

EVERY = 10


async def test_questions_that_take_long_keep_only_their_own_kind_waiting(tmp_path: Path) -> None:
    waiting = 0

    async def slow(_query: GetStateAt) -> StateAt:
        nonlocal waiting
        waiting += 1
        await asyncio.Event().wait()
        raise AssertionError

    async def quick(_query: ListReplays) -> ReplayList:
        return ReplayList(replays=())

    async with nats_in(tmp_path) as server:
        broker = make_broker(await server.connect("replay"))
        add_routes(broker, Historian({"state": slow}, {"replays": quick}))
        await broker.start()
        client = await server.connect("client")
        subject = subjects.state_rpc("state")
        asked = [asyncio.create_task(ask(client, subject, GetStateAt(sandbox="sb"), StateAt)) for _ in range(40)]
        await until(lambda: waiting >= 16)
        answer: ReplayList = await ask(client, subjects.state_rpc("replays"), ListReplays(), ReplayList)
        assert answer.replays == ()
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await broker.stop()


class Endless(LiveView):
    """Of a sandbox `huge…` it tells for ever."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.stuck = 0

    def read(self, filters: Sequence[str], start: int = 1, **options: object) -> AsyncIterator[Entry]:
        entries = super().read(filters, start, **options)  # type: ignore[arg-type]
        return self._for_ever(entries) if "huge" in filters[0] else entries

    async def _for_ever(self, entries: AsyncIterator[Entry]) -> AsyncIterator[Entry]:
        async for entry in entries:
            yield entry
        self.stuck += 1
        await asyncio.Event().wait()


async def test_long_histories_keep_no_short_one_waiting(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        huge = [f"huge-{number}" for number in range(AT_ONCE)]
        for sandbox in huge:
            await write(admin, sandbox, *UP, begun(), *(output(b"a", at) for at in range(2 * EVERY)))
        last = await write(admin, "small", *UP)
        view = Endless(await server.connect("replay"))
        folder = Folder(Snapshots(SnapshotStore(tmp_path / "folds", "v", max_bytes=1 << 20)), every=EVERY)
        folding = [asyncio.create_task(folder.at(view, sandbox, last)) for sandbox in huge]
        await until(lambda: view.stuck == AT_ONCE)
        async with asyncio.timeout(10):
            assert await folder.at(view, "small", last) == await fold_all(admin, "small", last)
        for each in folding:
            each.cancel()
        await asyncio.gather(*folding, return_exceptions=True)


async def test_screens_that_take_long_to_draw_keep_no_short_one_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player, "BATCH_BYTES", 500)
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        huge = [f"huge-{number}" for number in range(player.AT_ONCE)]
        for sandbox in huge:
            await write(admin, sandbox, *UP, begun("e"), *(output(b"a", at, exec_id="e") for at in range(10)))
        last = await write(admin, "small", *UP, begun("e"), output(b"here", 0, exec_id="e"))
        view = Endless(await server.connect("replay"))
        remembered = RememberedScreens(SnapshotStore(tmp_path / "screens", "v", max_bytes=1 << 20))
        screens = ScreenPlayer(remembered, Spacing(work_s=3600, bytes=1500))
        drawing = [asyncio.create_task(screens.at(view, sandbox, "e", last)) for sandbox in huge]
        await until(lambda: view.stuck == player.AT_ONCE)
        async with asyncio.timeout(10):
            assert (await screens.at(view, "small", "e", last)).emulator.lines()[0].startswith("here")
        for each in drawing:
            each.cancel()
        await asyncio.gather(*drawing, return_exceptions=True)
