"""Another key signs from some point on; what the old one signed counts, and it is gone."""

import shutil
from pathlib import Path

import pytest

from contracts import chain, codec, subjects
from contracts.commands.audit import RotateAuditKey
from contracts.errors import Unavailable
from contracts.events.audit import AuditRotated
from contracts.message import Command
from infra.audit.keys import Keys
from infra.audit.signing import public_of, verify
from infra.bus import reader
from infra.bus.connection import Bus
from tests.audit.rig import SELDOM, Auditing, auditing, prove, write
from tests.bus.servers import nats_in, until

SUBJECT = subjects.command(subjects.ANY_NODE, subjects.NO_SANDBOX, "audit", "rotate")


def order(number: int) -> bytes:
    return codec.encode(Command(id=f"c-{number}", type="audit.rotate", data=RotateAuditKey(reason="yearly")))


async def rotations(bus: Bus) -> list[AuditRotated]:
    subject = subjects.event(subjects.NO_SANDBOX, "audit.rotated")
    found = [entry async for entry in reader.read(bus, [subject], follow=False)]
    return [codec.decode(codec.decode_head(entry.data).data, AuditRotated) for entry in found]


async def key_of(audit: Auditing) -> str:
    key = Keys(audit.place).current()
    assert key is not None
    return public_of(key)


async def test_both_keys_sign_the_change_and_the_old_one_is_deleted(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own") as audit:
            await audit.has_proven(await write(writer, 5))
            old = await key_of(audit)
            await audit.part.handle(SUBJECT, order(1))
            # The same order again, as after a crash before it was acknowledged.
            await audit.part.handle(SUBJECT, order(1))
            await audit.has_proven(await write(writer, 5, name="more"))
            (rotated,) = await rotations(writer)
            new = await key_of(audit)
            state = await audit.state()
            assert [(each.key, each.current) for each in state.keys] == [(old, False), (new, True)]
        said = chain.rotation_statement(rotated)
        assert (rotated.key, rotated.next, rotated.reason) == (old, new, "yearly")
        assert verify(old, said, rotated.signature)
        assert verify(new, said, rotated.proof)
        assert [each.name for each in (tmp_path / "own" / "audit").glob("*.pem*")] == ["key.pem"]
        found = await prove(writer)
        assert {found[0].key, found[-1].key} == {old, new}


@pytest.mark.parametrize("point", ["_publish", "_promote"])
async def test_a_rotation_that_a_crash_interrupted_is_finished_or_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    from services.replay.audit.signer import Signer

    async def crash(*_: object, **__: object) -> None:
        raise RuntimeError("here it dies")

    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own", ends=False) as audit:
            await audit.has_proven(await write(writer, 5))
            old = await key_of(audit)
            with monkeypatch.context() as broken:
                broken.setattr(Signer, point, crash)
                with pytest.raises(RuntimeError):
                    await audit.part.handle(SUBJECT, order(1))
        assert len(await rotations(writer)) == (0 if point == "_publish" else 1)
        async with auditing(server, tmp_path / "own") as audit:
            await audit.has_proven(await write(writer, 5, name="more"))
            assert (await key_of(audit) == old) is (point == "_publish")
            await audit.part.handle(SUBJECT, order(1))
            await audit.has_proven(await write(writer, 5, name="again"))
            (rotated,) = await rotations(writer)
            assert await key_of(audit) == rotated.next
        assert verify(old, chain.rotation_statement(rotated), rotated.signature)
        assert [each.name for each in (tmp_path / "own" / "audit").glob("*.pem*")] == ["key.pem"]
        assert (await prove(writer))[-1].key == rotated.next


@pytest.mark.parametrize("how", ["gone", "unreadable", "another"])
async def test_a_lost_key_is_replaced_and_complained_about(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own") as audit:
            await audit.has_proven(await write(writer, 5))
            old = await key_of(audit)
        path = tmp_path / "own" / "audit" / "key.pem"
        path.unlink()
        if how == "unreadable":
            path.write_text("-----BEGIN PRIVATE KEY-----\nnonsense")
        elif how == "another":
            Keys(path.parent).make()
        async with auditing(server, tmp_path / "own", SELDOM, check_after_s=0) as audit:
            # It is the check that needs the key first, and finds no fault in the change.
            await audit.has_checked()
            assert await audit.damages() == []
            await write(writer, 5, name="more")
            new = await key_of(audit)
        (rotated,) = await rotations(writer)
        assert (rotated.key, rotated.next, rotated.signature) == (old, new, "")
        assert verify(new, chain.rotation_statement(rotated), rotated.proof)
        assert (await prove(writer))[-1].key == new
        assert len([each for each in caplog.records if f"{old} that signed the log is lost" in each.message]) == 1


async def test_a_key_that_a_copy_of_the_audit_has_replaced_names_no_other(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "one") as one:
            await one.has_proven(await write(writer, 5))
            shutil.copytree(tmp_path / "one", tmp_path / "two")
            async with auditing(server, tmp_path / "two", SELDOM) as two:
                await two.part._auditor.begun.wait()
                old = await two.part._signer.show(two.part._auditor.log)
                await one.part.handle(SUBJECT, order(1))
                await two.part.handle(SUBJECT, order(2))
        assert [each.key for each in await rotations(writer) if each.signature].count(old) == 1


async def test_a_node_without_the_key_leaves_the_log_to_the_node_that_has_it(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "one") as one:
            await one.has_proven(await write(writer, 5))
            async with auditing(server, tmp_path / "two", node="other") as two:
                last = await write(writer, 5, name="more")
                await until(lambda: "local signs this log" in two.part._auditor.trouble)
                with pytest.raises(Unavailable):
                    await two.part.handle(SUBJECT, order(1))
                await one.has_proven(last)
                assert (await two.state()).troubles
        assert await rotations(writer) == []
        assert len({each.key for each in await prove(writer)}) == 1
