"""Snapshots of folds: never wrong, and never needed."""

import asyncio
import os
import resource
import shutil
import signal
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.events.agent import AgentMessage
from contracts.events.sandbox import SandboxStopped
from contracts.folding import Folded
from contracts.streams import LOG_STREAM
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.log.live import LiveView
from services.replay.past import folder as folding
from services.replay.past.folder import Folder
from services.replay.past.keeping import Keeping
from services.replay.past.snapshots import Snapshots
from services.replay.past.store import DIGEST_BYTES, SnapshotStore
from services.replay.past.version import fold_version
from tests.bus.servers import Server, nats_in
from tests.contracts.histories import begun, completed, output
from tests.replay.logs import UP, fold_all, knows, model_on, write

EVERY = 10
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with nats_in(tmp_path_factory.mktemp("snapshots")) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def last(server: Server) -> int:
    """The log has one sandbox `sb` of about a hundred events, and others between them."""
    admin = await server.connect("admin")
    await write(admin, "sb", *UP)
    for number in range(16):
        name = f"e{number}"
        await write(admin, "sb", begun(name), output(b"abc", 0, exec_id=name), output(b"de", 3, exec_id=name))
        await write(admin, f"other-{number}", *UP)
        await write(admin, "sb", AgentMessage(run="r", text=f"said {number}"), completed(name, stdout=5))
    return await write(admin, "sb", SandboxStopped(reason="asked"))


class Reading(LiveView):
    """The log of this Cloche, and how many of its events were read."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.entries = 0

    async def _counted(self, entries: AsyncIterator[Entry]) -> AsyncIterator[Entry]:
        async for entry in entries:
            self.entries += 1
            yield entry

    def read(self, *args: object, **options: object) -> AsyncIterator[Entry]:
        return self._counted(super().read(*args, **options))  # type: ignore[arg-type]


class Bench:
    def __init__(self, bus: Bus, place: Path, *, max_bytes: int = 1 << 20, version: str = "v1") -> None:
        self.bus = bus
        self.place = place / version / "sb"
        self.store = SnapshotStore(place, version, max_bytes=max_bytes)
        self.snapshots = Snapshots(self.store)
        self.view = Reading(bus)
        self.folder = Folder(self.snapshots, every=EVERY)

    async def at(self, sequence: int) -> Folded | None:
        return await self.folder.at(self.view, "sb", sequence)


@pytest_asyncio.fixture(loop_scope="module")
async def bench(server: Server, last: int, tmp_path: Path) -> AsyncIterator[Bench]:
    async with await server.embedded.connect("replay") as bus:
        yield Bench(bus, tmp_path)


async def test_at_every_sequence_the_answer_is_that_of_a_fold_from_the_start(bench: Bench, last: int) -> None:
    assert await bench.at(last) == await fold_all(bench.bus, "sb", last)
    assert len(bench.store.sequences("sb")) == 8
    for sequence in range(1, last + 1, 3):
        assert await bench.at(sequence) == await fold_all(bench.bus, "sb", sequence)


async def test_only_what_follows_the_nearest_snapshot_is_read(bench: Bench, last: int) -> None:
    await bench.at(last)
    bench.view.entries = 0
    await bench.at(last)
    assert 0 < bench.view.entries < EVERY


async def test_a_large_output_is_cut_by_its_bytes(bench: Bench, last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "SNAPSHOT_BYTES", 1000)
    await bench.at(last)
    assert len(bench.store.sequences("sb")) > 15


@pytest.mark.parametrize("damage", ["a bit", "cut off", "emptied", "rewritten", "of another fold", "a directory"])
async def test_a_damaged_snapshot_is_passed_over_and_removed(bench: Bench, last: int, damage: str) -> None:
    last -= 1
    whole = await bench.at(last)
    for sequence in bench.store.sequences("sb"):
        path = bench.place / str(sequence)
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        match damage:
            case "a bit":
                path.write_bytes(raw)
            case "cut off":
                path.write_bytes(raw[:-3])
            case "emptied":
                path.write_bytes(b"")
            case "rewritten":
                told = zlib.decompress(path.read_bytes()[DIGEST_BYTES:])
                assert b'"running"' in told
                forged = told.replace(b'"status":"running"', b'"status":"removed"')
                path.write_bytes(path.read_bytes()[:DIGEST_BYTES] + zlib.compress(forged, 1))
            case "of another fold":
                bench.store.write("sb", sequence, b'{"event":"x","folded":{"sequence":1}}')
            case "a directory":
                path.unlink()
                path.mkdir()
    assert await bench.at(last) == whole
    if damage != "a directory":
        assert len(bench.store.sequences("sb")) == 8
        bench.view.entries = 0
        assert await bench.at(last) == whole
        assert bench.view.entries < EVERY


async def test_a_snapshot_under_another_name_is_not_believed(bench: Bench, last: int) -> None:
    await bench.at(last)
    kept = bench.store.sequences("sb")
    (bench.place / str(kept[-1])).rename(bench.place / str(kept[0] + 1))
    (bench.place / str(kept[1])).unlink()
    at = kept[1]
    assert await bench.at(at) == await fold_all(bench.bus, "sb", at)


async def test_nothing_is_wrong_where_the_directory_is_deleted_or_cannot_be_written(
    bench: Bench, last: int, caplog: pytest.LogCaptureFixture
) -> None:
    whole = await bench.at(last)
    shutil.rmtree(bench.place.parents[1])
    assert await bench.at(last) == whole
    shutil.rmtree(bench.place.parents[1])
    # Not even for root: there is a file where the directory should be.
    bench.place.parents[1].write_text("in the way")
    assert await bench.at(last) == whole
    assert await bench.at(last) == whole
    assert [each.message for each in caplog.records if "snapshots cannot be kept" in each.message][1:] == []


async def test_a_disk_that_is_full_makes_it_slower_and_nothing_else(bench: Bench, last: int) -> None:
    whole = await bench.at(last)
    bench.store.clear()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # As a full disk does: the first bytes are taken, and the next are not.
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        assert await bench.at(last) == whole
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert list(bench.place.iterdir()) == []


async def test_what_a_changed_fold_left_is_never_met(bench: Bench, last: int, tmp_path: Path) -> None:
    await bench.at(last)
    newer = Bench(bench.bus, tmp_path, version="v2")
    await newer.at(last)
    assert newer.view.entries > 50
    newer.store.clear_others()
    assert bench.store.sequences("sb") == []
    assert newer.store.sequences("sb") != []


async def test_the_version_is_that_of_the_text_of_the_folds() -> None:
    assert len(fold_version()) == 16
    assert fold_version() == fold_version()


async def test_all_together_they_take_no_more_than_they_may_and_the_least_used_go_first(
    bench: Bench, last: int, tmp_path: Path
) -> None:
    await bench.at(last)
    sizes = {each: (bench.place / str(each)).stat().st_size for each in bench.store.sequences("sb")}
    small = Bench(bench.bus, tmp_path / "small", max_bytes=sum(sizes.values()) // 2)
    for number, sequence in enumerate(sizes):
        found = bench.store.nearest("sb", sequence)
        assert found is not None
        small.store.write("sb", sequence, found.content)
        os.utime(small.place / str(sequence), (number, number))
        if number == 1:
            kept = sequence
        if number > 1:
            # Whatever else goes: this one is in use.
            assert small.store.nearest("sb", kept) is not None
    left = small.store.sequences("sb")
    assert kept in left
    assert next(iter(sizes)) not in left
    assert sum((small.place / str(each)).stat().st_size for each in left) <= sum(sizes.values()) // 2


async def test_a_snapshot_of_a_log_that_was_begun_again_is_not_believed(
    bench: Bench, last: int, tmp_path: Path
) -> None:
    """The same sandbox and the same sequences, and other events."""
    await bench.at(last)
    async with nats_in(tmp_path) as another:
        admin = await another.connect("admin")
        await write(admin, "sb", *UP, begun(), completed(stdout=0))
        for number in range(last):
            await write(admin, "sb", AgentMessage(run="r", text=f"other {number}"))
        view = Reading(await another.connect("replay"))
        assert await bench.folder.at(view, "sb", last) == await fold_all(admin, "sb", last)


async def test_those_who_ask_at_once_get_the_same(bench: Bench, last: int) -> None:
    answers = await asyncio.gather(*(bench.at(last) for _ in range(8)))
    assert answers == [answers[0]] * 8
    # One has read all of it, the others what followed its last snapshot.
    assert bench.view.entries < 84 + 8 * EVERY


async def test_they_are_made_before_anybody_asks(server: Server, bench: Bench, last: int) -> None:
    async with model_on(server) as model:
        await knows(model, ["sb"], last)
        keeping = Keeping(bench.bus, model.projection, bench.folder, bench.snapshots, every=EVERY, look_s=3600)
        await keeping.look()
        assert len(bench.store.sequences("sb")) == 8
        assert bench.store.sequences("other-1") == []
        await bench.at(last)
        assert bench.view.entries < EVERY
        # Where the log has not grown nobody looks at any sandbox.
        await asyncio.to_thread(bench.store.clear)
        await keeping.look()
        assert bench.store.sequences("sb") == []


async def test_a_sandbox_whose_beginning_is_forgotten_is_told_from_its_snapshots(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        await write(admin, "sb", *UP)
        for number in range(40):
            last = await write(admin, "sb", AgentMessage(run="r", text=f"said {number}"))
        bench = Bench(await server.connect("replay"), tmp_path / "folds")
        whole = await bench.at(last)
        config = (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
        await admin.api(f"STREAM.UPDATE.{LOG_STREAM}", config | {"max_msgs": 20})
        assert await bench.at(last) == whole
        # What the log has forgotten nobody can say.
        assert await bench.at(last - 25) is None
        assert await fold_all(bench.bus, "sb", last) is None
        assert bench.store.sequences("sb") != []
