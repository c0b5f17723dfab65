"""No room for what is kept outside the store: the audit says so, waits, and then has lost and doubled nothing."""

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.audit.record import Kept, Record
from infra.audit.tail import Seen, Tail
from services.replay.audit import auditor
from tests.audit.rig import SELDOM, auditing, damages, prove, write
from tests.bus.servers import nats_in, until

FULL = OSError(errno.ENOSPC, "No space left on device")


async def test_a_note_that_is_half_written_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "TROUBLE_S", 0.05)
    whole = Tail.append

    def half(self: Tail, seen: Sequence[Seen]) -> None:
        whole(self, seen[: len(seen) // 2])
        with self._path.open("ab") as file:
            file.write(b"torn")
        raise FULL

    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own", SELDOM, ends=False) as audit:
            await audit.has_seen(await write(writer, 5))
            with monkeypatch.context() as full:
                full.setattr(Tail, "append", half)
                last = await write(writer, 40, name="more")
                await until(lambda: "No space left" in audit.part._auditor.trouble)
            await audit.has_seen(last)
            assert [each.sequence for each in Tail(audit.place).read()] == list(range(1, last + 1))
        async with auditing(server, tmp_path / "own") as audit:
            await audit.has_proven(last)
        await prove(writer)
        assert await damages(writer) == []


async def test_a_checkpoint_that_the_log_has_and_the_file_has_no_room_for_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "TROUBLE_S", 0.05)

    def full(self: Record, kept: Kept) -> None:
        with self._path.open("ab") as file:
            file.write(b'{"half":')
        raise FULL

    async with nats_in(tmp_path) as server:
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own") as audit:
            await audit.has_proven(await write(writer, 5))
            with monkeypatch.context() as no_room:
                no_room.setattr(Record, "append", full)
                last = await write(writer, 40, name="more")
                await until(lambda: "No space left" in audit.part._auditor.trouble)
            await audit.has_proven(last)
        found = await prove(writer)
        assert [each.kept.checkpoint for each in Record(audit.place).lines()] == found
        assert await damages(writer) == []
