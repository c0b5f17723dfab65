"""The chain grows with the log, and goes on where it was, whatever happens in between."""

import asyncio
import shutil
from pathlib import Path

import pytest

from contracts import chain
from contracts.audits import Audit
from contracts.streams import Limits
from infra.audit.record import Record
from infra.audit.tail import Tail
from infra.bus import reader
from infra.bus.provision import provision
from services.replay.audit import auditor
from tests.audit.rig import SELDOM, auditing, checkpoints, damages, lines, prove, write
from tests.bus.servers import nats_in, until
from tests.services.node import Service


async def test_every_event_is_proven_once_and_checkpoints_alone_make_no_more(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own") as audit:
            last = await write(writer, 35)
            await audit.has_proven(last)
            found = await prove(writer)
            assert found[0].previous == chain.genesis(found[0].log)
            # The last of them covers the others, and is itself covered by nothing: the log is at rest.
            await audit.has_seen(last + len(found))
            assert not audit.part._auditor._worth
            assert len(await checkpoints(writer)) == len(found)
        assert await damages(writer) == []
        assert len(lines(tmp_path / "own" / "audit" / "checkpoints.jsonl")) == len(await checkpoints(writer))
        assert (tmp_path / "own" / "audit").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "own" / "audit" / "key.pem").stat().st_mode & 0o777 == 0o600


async def test_an_orderly_end_proves_what_came_last(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own", SELDOM) as audit:
            last = await write(writer, 5)
            await audit.has_seen(last)
            assert await checkpoints(writer) == []
        (found,) = await prove(writer)
        assert found.last_sequence == last
        # And the next life has nothing to prove.
        async with auditing(server, tmp_path / "own", SELDOM) as audit:
            await audit.has_seen(last + 1)
        assert await prove(writer) == [found]


async def test_a_log_that_is_older_than_its_audit_is_proven_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "PAGE_ENTRIES", 17)
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        last = await write(writer, 250)
        async with auditing(server, tmp_path / "own", Audit(checkpoint_events=100, checkpoint_s=86_400)) as audit:
            await audit.has_seen(last)
        assert [each.last_sequence for each in await prove(writer)][:2] == [100, 200]


@pytest.mark.parametrize("lost", ["record", "tail", "both"])
async def test_a_checkpoint_that_was_stored_and_not_noted_before_a_crash_is_noted_by_the_next_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("here it dies")

    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        last = await write(writer, 5)
        with monkeypatch.context() as broken:
            if lost in ("record", "both"):
                broken.setattr(Record, "append", crash)
            if lost in ("tail", "both"):
                broken.setattr(Tail, "restart", crash)
            async with auditing(server, tmp_path / "own", ends=False) as audit:
                await asyncio.wait({audit.running})
                assert (await audit.state()).checkpoint == last
        async with auditing(server, tmp_path / "own") as audit:
            last = await write(writer, 5, name="more")
            await audit.has_proven(last)
        found = await prove(writer)
        assert await damages(writer) == []
    assert [line["checkpoint"]["hash"] for line in lines(tmp_path / "own" / "audit" / "checkpoints.jsonl")] == [
        each.hash for each in found
    ]


async def test_two_auditors_of_one_log_make_one_chain(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "one") as one:
            await one.has_proven(await write(writer, 1))
            shutil.copytree(tmp_path / "one", tmp_path / "two")
            async with auditing(server, tmp_path / "two", Audit(checkpoint_events=7, checkpoint_s=0.03)) as two:
                last = 0
                for number in range(10):
                    last = await write(writer, 10, name=f"e{number}")
                await one.has_proven(last)
                await two.has_seen(last)
                await one.has_seen(last)
        assert len(await prove(writer)) > 10
        assert await damages(writer) == []


async def test_a_second_audit_of_one_directory_waits_for_the_first_to_end(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own") as one, auditing(server, tmp_path / "own") as two:
            await one.has_proven(await write(writer, 5))
            assert two.part._auditor.log == ""
        await prove(writer)


async def test_what_retention_drops_is_no_damage_and_the_chain_holds_from_the_last_kept_checkpoint(
    tmp_path: Path,
) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        admin = await server.connect("admin")
        await provision(admin, Limits(log_max_bytes=60_000), ("local",))
        async with auditing(server, tmp_path / "own", ends=False) as audit:
            for number in range(8):
                await audit.has_proven(await write(writer, 20, name=f"e{number}", size=300))
            first = (await reader.bounds(writer)).first
            assert first > 50
        # And some that nobody had proven.
        last = await write(writer, 400, name="unseen", size=300)
        assert (await reader.bounds(writer)).first > first + 200
        async with auditing(server, tmp_path / "own", check_after_s=0) as audit:
            await audit.has_proven(last)
            await audit.has_checked()
            kept = [line["checkpoint"] for line in lines(tmp_path / "own" / "audit" / "checkpoints.jsonl")]
            found = await checkpoints(writer)
            assert [each["hash"] for each in kept][-len(found) :] == [each.hash for each in found]
            assert kept[0]["last_sequence"] > 20
            assert any(each.missing for each in found) or any(each["missing"] for each in kept)
        assert await damages(writer) == []


async def test_a_service_that_is_killed_again_and_again_makes_one_chain(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        (server.data / "cloche.toml").write_text("[audit]\ncheckpoint_events = 5\ncheckpoint_s = 0.05\n")
        writer = await server.connect("executor")
        service = Service("replay", server.data, {})
        last = 0
        for number in range(4):
            await service.start()
            writing = asyncio.create_task(write(writer, 60, name=f"e{number}"))
            # Sooner or later in what it does each time: while it begins, reads, signs, notes.
            before = len(await checkpoints(writer))

            async def went_on(before: int = before, number: int = number) -> bool:
                return len(await checkpoints(writer)) >= before + number

            await until(went_on)
            await service.kill()
            last = await writing
        await service.start()

        async def is_proven() -> bool:
            found = await checkpoints(writer)
            return bool(found) and found[-1].last_sequence >= last

        await until(is_proven)
        assert await service.stop() == 0
        found = await prove(writer)
        assert await damages(writer) == []
        assert not [line for line in service.said if "ERROR" in line or "Traceback" in line]
    kept = [line["checkpoint"]["hash"] for line in lines(server.data / "audit" / "checkpoints.jsonl")]
    assert kept == [each.hash for each in found]
