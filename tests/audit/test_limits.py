"""What is kept outside of a log whose limits drop its oldest events."""

from pathlib import Path

import pytest

from contracts.errors import Conflict
from contracts.streams import LOG_STREAM
from infra.audit.record import FILE
from infra.export.segments import Segment
from infra.settings import Retention
from services.replay.audit import auditor
from services.replay.expiring import Expiring
from tests.audit.rig import auditing, lines, write
from tests.bus.servers import Server, nats_in, until


async def limited(server: Server, **limits: int) -> None:
    admin = await server.connect("admin")
    config = (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
    await admin.api(f"STREAM.UPDATE.{LOG_STREAM}", config | limits)


async def test_the_record_is_trimmed_with_the_log_while_the_service_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "TRIM_EVERY", 3)
    async with nats_in(tmp_path) as server:
        await limited(server, max_msgs=40)
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own") as audit:
            for number in range(20):
                await audit.has_proven(await write(writer, 20, name=f"e{number}"))
            path = audit.place / FILE
            await until(lambda: lines(path)[0]["checkpoint"]["last_sequence"] > 200)
            assert await audit.damages() == []


async def test_files_of_a_longer_log_are_not_taken_for_those_of_this_one(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        last = await write(await server.connect("executor"), 5)
        await limited(server, max_bytes=1)
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept" / Segment(1, last + 1, 100).name).touch()
        keeping = Expiring(await server.connect("replay"), Retention(export_to=tmp_path / "kept"))
        with pytest.raises(Conflict, match="another one"):
            await keeping.catch_up()
