"""The read model is what the log says, whatever happens to its bucket, and however many keep it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from contracts import codec
from contracts.errors import Invalid, Unavailable
from contracts.events.sandbox import SandboxPaused, SandboxRemoved, SandboxStopped
from contracts.past import Rebuild
from contracts.state import SandboxState, Sequenced, Status
from contracts.streams import LOG_STREAM, SANDBOXES_BUCKET, Limits
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.kv import Bucket
from infra.bus.provision import provision
from infra.bus.reader import Bounds
from infra.configuration import load
from infra.lifecycles import Lifecycles
from services.cli import lost_streams
from services.replay.healing import rightful
from services.replay.mirror import CURSOR
from services.replay.projection import Projection
from services.replay.read_model import ReadModel
from services.replay.rebuilding import Rebuilder
from services.replay.refolding import refold
from tests.bus.servers import Server, nats_in, until
from tests.contracts.histories import numbered
from tests.replay.logs import UP, event_of, knows, model_on, write, write_raw
from tests.services.test_projection import state

KV = f"KV_{SANDBOXES_BUCKET}"
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with nats_in(tmp_path_factory.mktemp("healing")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def admin(server: Server) -> AsyncIterator[Bus]:
    """On an empty log and an empty bucket."""
    async with await server.embedded.connect("admin") as bus:
        for stream in (LOG_STREAM, KV):
            await bus.api(f"STREAM.DELETE.{stream}")
        await provision(bus, Limits(), ["local"])
        yield bus


async def purge(admin: Bus, **body: Any) -> None:
    await admin.api(f"STREAM.PURGE.{KV}", body)


def bogus(model: ReadModel, name: str, **changes: Any) -> bytes:
    known = model.projection.get(name)
    assert known is not None
    return codec.encode(msgspec.structs.replace(known, **changes))


async def states(bus: Bus) -> dict[str, Status]:
    kept = await Bucket(bus, SANDBOXES_BUCKET).all()
    return {key: codec.decode(raw, SandboxState).status for key, raw in kept.items() if not key.startswith("_")}


async def test_an_unknown_tag_and_an_unreadable_event_are_passed_over(server: Server, admin: Bus) -> None:
    await write(admin, "a", *UP)
    head = b'"source":"x","time":"2026-01-01T00:00:00Z","sandboxid":"a"'
    await write_raw(
        admin, "cloche.log.a.sandbox.teleported", b'{"id":"1","type":"sandbox.teleported",%b,"data":{}}' % head
    )
    await write_raw(admin, "cloche.log.a.sandbox.stopped", b'{"id":"2","type":"sandbox.stopped",%b,"data":{}}' % head)
    await write_raw(admin, "cloche.log.a.sandbox.paused", b"not even an event")
    too_late = b'{"run":"r","approval":"a","tool":"t","expires_ms":99999999999999999}'
    started = b'{"run":"r","runtime":"x","prompt":""}'
    await write_raw(
        admin, "cloche.log.a.agent.started.r", b'{"id":"3","type":"agent.started",%b,"data":%b}' % (head, started)
    )
    await write_raw(
        admin,
        "cloche.log.a.agent.approval_requested.r",
        b'{"id":"4","type":"agent.approval_requested",%b,"data":%b}' % (head, too_late),
    )
    last = await write(admin, "a", SandboxPaused())
    async with model_on(server) as model:
        await knows(model, ["a"], last)
        known = model.projection.get("a")
        assert known is not None
        assert (known.status, known.applied_sequence, len(known.runs)) == (Status.PAUSED, last, 1)


@pytest.mark.parametrize(
    "damage", ["garbage", "another's", "of the future", "cursor of the future", "lost", "cursor lost", "one lost"]
)
async def test_a_damaged_bucket_is_made_again_when_the_service_starts(server: Server, admin: Bus, damage: str) -> None:
    await write(admin, "a", *UP)
    last = await write(admin, "b", *UP, SandboxPaused())
    async with model_on(server) as model:
        await knows(model, ["a", "b"], last)
        future = bogus(model, "b", applied_sequence=10_000, status=Status.FAILED)
        others = bogus(model, "b", sandbox="c")
    bucket = Bucket(admin, SANDBOXES_BUCKET)
    match damage:
        case "garbage":
            await bucket.put("b", b"{oops")
        case "another's":
            await bucket.put("b", others)
        case "of the future":
            await bucket.put("b", future)
        case "cursor of the future":
            await bucket.put(CURSOR, b"10000")
        case "lost":
            await purge(admin)
        case "cursor lost":
            await purge(admin, filter=f"$KV.{SANDBOXES_BUCKET}.{CURSOR}")
        case "one lost":
            await purge(admin, filter=f"$KV.{SANDBOXES_BUCKET}.b")
    last = await write(admin, "a", SandboxStopped(reason="asked"))
    async with model_on(server) as model:
        await until(lambda: model.projection.applied >= last)
        await until(lambda: not any(model.projection.is_dirty(each) for each in "ab"))
        await model.healing.look()
        await knows(model, ["a", "b"], last)
        assert await states(admin) == {"a": Status.STOPPED, "b": Status.PAUSED}


@pytest.mark.parametrize(
    "damage", ["garbage", "wrong", "of the future", "lost", "all lost", "invented", "one not known"]
)
async def test_a_damaged_bucket_is_made_again_while_the_service_runs(server: Server, admin: Bus, damage: str) -> None:
    await write(admin, "a", *UP)
    last = await write(admin, "b", *UP, SandboxPaused())
    bucket = Bucket(admin, SANDBOXES_BUCKET)
    async with model_on(server) as model:
        await knows(model, ["a", "b"], last)
        healed = ["b"]
        match damage:
            case "garbage":
                await bucket.put("b", b"{oops")
            case "wrong":
                await bucket.put("b", bogus(model, "b", status=Status.FAILED))
            case "of the future":
                await bucket.put("b", bogus(model, "b", applied_sequence=10_000, status=Status.FAILED))
            case "lost":
                await purge(admin, filter=f"$KV.{SANDBOXES_BUCKET}.b")
            case "all lost":
                await purge(admin)
                healed = ["a", "b"]
            case "invented":
                await bucket.put("c", bogus(model, "b", sandbox="c"))
                healed = ["c"]
            case "one not known":
                model.projection.adopt("b", None)
                await purge(admin, filter=f"$KV.{SANDBOXES_BUCKET}.b")
        assert await model.healing.look() == healed
        await knows(model, ["a", "b"], last)
        assert await states(admin) == {"a": Status.RUNNING, "b": Status.PAUSED}
        assert await model.healing.look() == []


async def test_what_says_that_it_is_of_another_sandbox_is_passed_over(server: Server, admin: Bus) -> None:
    await write(admin, "a", *UP)
    await write_raw(
        admin, "cloche.log.b.sandbox.stopped", codec.encode(event_of("a", SandboxStopped(reason="not mine to tell")))
    )
    last = await write(admin, "b", *UP)
    async with model_on(server) as model:
        await knows(model, ["a", "b"], last)
        assert await states(admin) == {"a": Status.RUNNING, "b": Status.RUNNING}
        assert await model.healing.rebuild() == []


async def test_very_many_that_are_wrong_are_made_again_by_reading_the_log_once(
    server: Server, admin: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"sb-{number}" for number in range(12)]
    last = 0
    for name in names:
        last = await write(admin, name, *UP)
    async with model_on(server) as model:
        await knows(model, names, last)
        for name in names:
            await model.bucket.put(name, bogus(model, name, status=Status.FAILED))
        reads: list[str] = []

        async def counted(bus: Bus, live: Projection, take: Any, **options: Any) -> None:
            reads.append(options.get("sandbox", "*"))
            await refold(bus, live, take, **options)

        monkeypatch.setattr("services.replay.healing.refold", counted)
        assert await model.healing.look() == sorted(names)
        assert reads == ["*"]
        assert set((await states(admin)).values()) == {Status.RUNNING}


async def test_one_entry_that_is_lost_while_nobody_looked_is_found_though_nothing_new_happens(
    server: Server, admin: Bus
) -> None:
    await write(admin, "a", *UP)
    last = await write(admin, "b", *UP)
    async with model_on(server) as model:
        await knows(model, ["a", "b"], last)
    await purge(admin, filter=f"$KV.{SANDBOXES_BUCKET}.b")
    async with model_on(server) as model:
        assert await model.healing.look() == ["b"]
        await knows(model, ["a", "b"], 0)


async def test_an_emptied_bucket_is_written_whole_with_the_next_event(server: Server, admin: Bus) -> None:
    """So that no cursor ever stands beside states that are not there."""
    await write(admin, "a", *UP)
    last = await write(admin, "b", *UP)
    async with model_on(server) as model:
        await knows(model, ["a", "b"], last)
        await purge(admin)
        last = await write(admin, "b", SandboxPaused())
        await knows(model, ["a", "b"], last)


async def test_what_is_applied_while_the_end_is_read_again_is_not_missed(server: Server, admin: Bus) -> None:
    last = await write(admin, "a", *UP)
    (late,) = numbered([SandboxPaused()], last + 1)
    (others,) = numbered([SandboxPaused()], last + 2)

    class Live(Projection):
        @contextmanager
        def recording(self) -> Iterator[list[Sequenced]]:
            with super().recording() as recorded:
                for event, name in ((late, "a"), (others, "b")):
                    self.apply(event.sequence, msgspec.structs.replace(event.head, sandboxid=name))
                yield recorded

    taken: list[SandboxState] = []
    bus = await server.connect("replay")
    await refold(bus, Live(), lambda fresh, _: taken.extend(fresh.all()), sandbox="a")
    assert [(each.sandbox, each.status, each.applied_sequence) for each in taken] == [("a", Status.PAUSED, last + 1)]


async def test_a_bucket_that_is_gone_is_complained_about_once_and_written_whole_when_it_is_back(
    server: Server, admin: Bus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.replay.mirror.PUT_S", 0.2)
    monkeypatch.setattr("services.replay.mirror.TRY_AGAIN_S", 0.05)
    caplog.set_level(logging.WARNING, logger="services.replay")
    await write(admin, "a", *UP)
    last = await write(admin, "b", *UP)
    async with model_on(server) as model:
        await knows(model, ["a", "b"], last)
        await admin.api(f"STREAM.DELETE.{KV}")
        last = await write(admin, "b", SandboxPaused())

        def complaints() -> int:
            return sum("bucket of sandboxes is gone" in each.message for each in caplog.records)

        await until(lambda: complaints() == 1)
        last = await write(admin, "b", SandboxStopped(reason="asked"))
        await until(lambda: model.projection.applied >= last)
        await provision(admin, Limits(), ["local"])
        await knows(model, ["a", "b"], last)
        assert await states(admin) == {"a": Status.RUNNING, "b": Status.STOPPED}
        await until(lambda: any("is back" in each.message for each in caplog.records))
        assert complaints() == 1


async def test_a_service_starts_without_its_bucket(server: Server, admin: Bus) -> None:
    last = await write(admin, "a", *UP)
    await admin.api(f"STREAM.DELETE.{KV}")
    async with model_on(server) as model:
        await until(lambda: model.projection.applied >= last)
        await provision(admin, Limits(), ["local"])
        await knows(model, ["a"], last)


async def test_rebuilding_a_node_makes_lost_streams_again_first(server: Server, admin: Bus) -> None:
    await admin.api(f"STREAM.DELETE.{KV}")
    await lost_streams.make_again(load({"CLOCHE_DATA": str(server.data)}))
    assert (await admin.api(f"STREAM.INFO.{KV}"))["state"]["messages"] == 0


async def test_a_rebuild_that_comes_to_grief_says_so_to_whoever_follows_it(server: Server, admin: Bus) -> None:
    async with model_on(server) as model, asyncio.TaskGroup() as tasks:
        rebuilder = Rebuilder(model, [], tasks=tasks)
        await admin.api(f"STREAM.DELETE.{KV}")
        begun = await rebuilder.rebuild(Rebuild())

        async def failed() -> bool:
            try:
                return (await rebuilder.rebuild(Rebuild(follow=begun.id))).done
            except Unavailable:
                return True

        await until(failed)
        await provision(admin, Limits(), ["local"])
        with pytest.raises(Unavailable):
            await rebuilder.rebuild(Rebuild(follow=begun.id))
        with pytest.raises(Invalid, match="ask for a new one"):
            await rebuilder.rebuild(Rebuild(follow="another"))
        again = await rebuilder.rebuild(Rebuild())
        assert (await rebuilder.rebuild(Rebuild())).id == again.id

        async def done() -> bool:
            return (await rebuilder.rebuild(Rebuild(follow=again.id))).done

        await until(done)
        # Any other replay service can say so too.
        await until(lambda: _is_told(model, again.id))


async def _is_told(model: ReadModel, id_: str) -> bool:
    async with asyncio.TaskGroup() as tasks:
        try:
            return (await Rebuilder(model, [], tasks=tasks).rebuild(Rebuild(follow=id_))).done
        except Invalid:
            return False


async def test_two_that_keep_one_bucket_take_nothing_back_from_each_other(server: Server, admin: Bus) -> None:
    first = await write(admin, "a", *UP)
    async with model_on(server) as ahead:
        await knows(ahead, ["a"], first)
        behind = ReadModel(await server.connect("replay"), look_s=3600)
        await behind.restore()
        last = await write(admin, "a", SandboxPaused(), SandboxStopped(reason="asked"))
        await knows(ahead, ["a"], last)
        revision = (await ahead.bucket.newest("a")).revision
        # It knows less, and is asked to write that; then to look whether all is well.
        behind.projection.mark(["a"])
        async with behind._mirror.writing:
            await behind._mirror._flush()
        assert await behind.healing.look() == []
        assert await states(admin) == {"a": Status.STOPPED}
        assert (await ahead.bucket.newest("a")).revision == revision
        assert await ahead.healing.look() == []


async def test_rebuilding_repairs_what_differs_and_removes_what_the_log_does_not_know(
    server: Server, admin: Bus
) -> None:
    await write(admin, "a", *UP)
    await write(admin, "b", *UP, SandboxPaused())
    last = await write(admin, "c", *UP, SandboxRemoved(reason="asked"))
    bucket = Bucket(admin, SANDBOXES_BUCKET)
    async with model_on(server) as model:
        await knows(model, ["a", "b", "c"], last)
        known = model.projection.get("b")
        assert known is not None
        wrong = msgspec.structs.replace(known, status=Status.FAILED)
        # In memory too: as a fold with a mistake would have left it.
        model.projection.restore(wrong)
        await bucket.put("b", codec.encode(wrong))
        await bucket.put("invented", b"{}")
        progress: list[tuple[int, int]] = []
        changed = await model.healing.rebuild(lambda done, whole: progress.append((done, whole)))
        assert changed == ["b", "invented"]
        assert progress[-1] == (last, last)
        await knows(model, ["a", "b", "c"], last)
        assert await states(admin) == {"a": Status.RUNNING, "b": Status.PAUSED, "c": Status.REMOVED}
        assert await model.healing.rebuild(lambda *_: None) == []


async def test_what_happens_during_a_rebuild_is_in_it(server: Server, admin: Bus) -> None:
    for name in ("a", "b", "c", "d"):
        last = await write(admin, name, *UP)
    async with model_on(server) as model:
        await knows(model, ["a", "b", "c", "d"], last)
        written = 0

        async def go_on() -> None:
            nonlocal written
            for number in range(64):
                await write(admin, "abcd"[number % 4], SandboxPaused() if number % 8 < 4 else SandboxStopped(reason=""))
                written += 1

        going = asyncio.create_task(go_on())
        while not going.done():
            await model.healing.rebuild(lambda *_: None)
        await going
        last = (await reader.bounds(admin)).last
        await knows(model, ["a", "b", "c", "d"], last)
        assert set((await states(admin)).values()) == {Status.STOPPED}
        assert all(state.applied_sequence > last - 8 for state in model.projection.all())


async def test_a_sandbox_whose_beginning_the_log_has_forgotten_is_kept_as_it_is_known(
    server: Server, admin: Bus
) -> None:
    await write(admin, "old", *UP)
    last = await write(admin, "young", *UP, SandboxPaused())
    async with model_on(server) as model:
        await knows(model, ["old", "young"], last)
        config = (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
        for most in (4, config["max_msgs"]):
            await admin.api(f"STREAM.UPDATE.{LOG_STREAM}", config | {"max_msgs": most})
        assert (await reader.bounds(admin)).first == 4
        assert await model.healing.look() == []
        assert await model.healing.rebuild(lambda *_: None) == []
        last = await write(admin, "old", SandboxStopped(reason="asked"))
        await knows(model, ["old", "young"], last)
        assert await model.healing.rebuild(lambda *_: None) == []
        assert await states(admin) == {"old": Status.STOPPED, "young": Status.PAUSED}


async def test_the_log_is_believed_as_far_as_it_goes() -> None:
    known, told = state("a", "log"), state("a", "bucket")
    assert known.first_sequence == 1
    assert rightful(known, told, Bounds(1, 10)) is known
    assert rightful(None, told, Bounds(1, 10)) is None
    assert rightful(None, told, Bounds(2, 10)) is told
    assert rightful(known, told, Bounds(2, 10)) is told
    assert rightful(known, None, Bounds(2, 10)) is known
    # A log that was lost is no reason to forget what ran in it.
    assert rightful(None, told, Bounds(0, 0)) is told


async def begun_again(admin: Bus) -> None:
    """As a store that lost its end: the same sequences are given to other events."""
    await admin.api(f"STREAM.DELETE.{LOG_STREAM}")
    await provision(admin, Limits(), ["local"])


async def test_a_log_that_lost_its_end_while_it_was_followed_is_believed(server: Server, admin: Bus) -> None:
    async with model_on(server) as model:
        await knows(model, ["a"], await write(admin, "a", *UP, SandboxPaused()))
        await begun_again(admin)
        await write(admin, "a", *UP)
        await until(lambda: [each.status for each in model.projection.all()] == [Status.RUNNING])
        await knows(model, ["a", "b"], await write(admin, "b", *UP))
        assert await states(admin) == {"a": Status.RUNNING, "b": Status.RUNNING}


async def test_a_log_that_lost_its_end_while_nobody_followed_it_is_believed(server: Server, admin: Bus) -> None:
    async with model_on(server) as model:
        await knows(model, ["a"], await write(admin, "a", *UP, SandboxPaused()))
    await begun_again(admin)
    await write(admin, "b", *UP)
    last = await write(admin, "a", *UP)
    async with model_on(server) as model:
        await until(lambda: model.projection.get("b") is not None)
        await knows(model, ["a", "b"], last)
        assert await states(admin) == {"a": Status.RUNNING, "b": Status.RUNNING}


async def test_whoever_follows_lifecycles_of_a_log_that_lost_its_end_believes_it(server: Server, admin: Bus) -> None:
    lives = Lifecycles(await server.connect("executor"))
    heard: list[Status] = []
    lives.on_change(lambda state: heard.append(state.status))
    await write(admin, "a", *UP, SandboxPaused())
    following = asyncio.create_task(lives.follow())
    await until(lambda: Status.PAUSED in heard)
    await begun_again(admin)
    await write(admin, "a", *UP)
    await until(lambda: heard[-1] == Status.RUNNING)
    assert [(state.status, state.applied_sequence) for state in lives] == [(Status.RUNNING, 3)]
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
