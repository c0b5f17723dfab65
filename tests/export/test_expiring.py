import asyncio
import datetime
import gzip
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from contracts import subjects
from contracts.chain import Fault, Message
from contracts.exports import Piece, decode_line
from contracts.verifying import Trust
from infra import clock
from infra.bus import reader
from infra.bus.provision import provision
from infra.configuration import load
from infra.export.jsonl import Span, message_of
from infra.export.segments import Segment
from infra.settings import Retention
from infra.verify.export import verify_export
from services.replay import expiring
from services.replay.expiring import Expiring, unexported_bytes
from tests.bus.servers import Server, nats_in, until
from tests.export.rig import a_session, checkpoint
from tests.playing.past import record
from tests.services.node import Service

KILOBYTES = 1024
OUTPUT = b"x" * (10 * KILOBYTES)


async def limited(server: Server, **limits: int) -> None:
    admin = await server.connect("admin")
    config = (await admin.api("STREAM.INFO.CLOCHE_LOG"))["config"]
    await admin.api("STREAM.UPDATE.CLOCHE_LOG", config | limits)


async def everything(server: Server) -> list[Message]:
    client = await server.connect("client")
    first = (await reader.bounds(client)).first
    return [message_of(entry) async for entry in reader.read(client, [subjects.LOG], first, follow=False)]


def in_segments(directory: Path) -> tuple[list[Message], list[str]]:
    """Every event and every content of all files, in their order."""
    events, contents = list[Message](), list[str]()
    for file in sorted(directory.glob("cloche-*.jsonl.gz")):
        for raw in gzip.decompress(file.read_bytes()).splitlines():
            line = decode_line(raw)
            events += [line] if isinstance(line, Message) else []
            contents += [line.blob] if isinstance(line, Piece) and line.last else []
    return events, contents


def own(events: list[Message]) -> list[Message]:
    """Without the checkpoints: the one that proves the end of a file is in the next one too."""
    return [event for event in events if event.subject != subjects.checkpoints()]


async def write_outputs(server: Server, name: str, count: int) -> None:
    await record(server, "sb", outputs=[OUTPUT] * count, exec=name)


async def test_what_a_full_log_drops_was_written_to_files_each_event_once(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        await a_session(server, steps=3)
        await write_outputs(server, "e2", 20)
        await checkpoint(server)
        replay, place = await server.connect("replay"), tmp_path / "kept"
        keeping = Expiring(replay, Retention(export_to=place))
        assert await keeping.catch_up() == [], "there is no limit"
        await limited(server, max_bytes=400 * KILOBYTES)
        assert await keeping.catch_up() == [], "there is room"
        known = await everything(server)
        await write_outputs(server, "e3", 12)
        (span,) = await keeping.catch_up()
        assert span.first == 1
        assert 10 < span.last < len(known), "more than has to be, and not all of it"
        assert await keeping.catch_up() == []
        for number in range(4, 9):
            await write_outputs(server, f"e{number}", 6)
            known += [each for each in await everything(server) if each.sequence > known[-1].sequence]
            await keeping.catch_up()
        first = (await everything(server))[0].sequence
        assert first > 20, "the log has dropped something"
        written, contents = in_segments(place)
        assert own(written) == own(known)[: len(own(written))]
        assert written[-1].sequence >= first - 1, "everything that was dropped"
        assert contents
        assert len(contents) == len(set(contents))
        sizes = [(place / name).stat().st_mode & 0o777 for name in os.listdir(place) if name.endswith(".gz")]
        assert set(sizes) == {0o600}


async def test_each_file_is_whole_by_itself_though_contents_are_in_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiring, "SEGMENT_EVENTS", 10)
    async with nats_in(tmp_path) as server:
        story = await a_session(server, steps=6)
        for number in range(3):
            await write_outputs(server, f"e{number + 2}", 9)
            await story.step()
            await story.manifest()
        await checkpoint(server)
        admin = await server.connect("admin")
        await limited(server, max_bytes=(await admin.api("STREAM.INFO.CLOCHE_LOG"))["state"]["bytes"] + KILOBYTES)
        await Expiring(await server.connect("replay"), Retention(export_to=tmp_path / "kept")).catch_up()
    files = sorted((tmp_path / "kept").glob("cloche-*.jsonl.gz"))
    assert len(files) > 3
    for file in files:
        assert faults(file) == {Fault.BAD_SIGNATURE}, "the checkpoint of this test is not signed"
    pieces = [
        (file, line) for file in files[1:] for line in gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    ]
    file, lost = next((file, line) for file, line in pieces if line.startswith(b'{"blob"') and b'"last":true' in line)
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).replace(lost, b"")))
    assert Fault.BLOB_MISSING in faults(file)


def faults(file: Path) -> set[str]:
    return {finding.fault for finding in verify_export(file, Trust(), lambda *_: None).findings}


async def test_what_grows_too_old_is_written_before_it_is_dropped(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        await write_outputs(server, "e1", 3)
        await limited(server, max_age=3600 * 1_000_000_000)
        later = clock.now()

        def now() -> datetime.datetime:
            return later

        keeping = Expiring(await server.connect("replay"), Retention(export_to=tmp_path / "kept"), now)
        assert await keeping.catch_up() == []
        later += datetime.timedelta(minutes=47)
        assert await keeping.catch_up() == [], "80 % of an hour are 48 minutes"
        later += datetime.timedelta(minutes=2)
        assert await keeping.catch_up() == [Span(1, 5)]
        assert in_segments(tmp_path / "kept")[0] == await everything(server)
        assert await keeping.catch_up() == []


SETTINGS = """
[limits]
log_max_age_s = 3600
log_max_bytes = 200_000
[retention]
export_to = "{place}"
"""


async def test_a_node_with_such_settings_has_the_limits_and_writes_what_they_are_about_to_drop(tmp_path: Path) -> None:
    async with nats_in(tmp_path, provisioned=False) as server:
        place = tmp_path / "kept"
        (server.data / "cloche.toml").write_text(SETTINGS.format(place=place))
        settings = load({"CLOCHE_DATA": str(server.data)})
        admin = await server.connect("admin")
        await provision(admin, settings.limits, [settings.node])
        config = (await admin.api("STREAM.INFO.CLOCHE_LOG"))["config"]
        assert (config["max_age"], config["max_bytes"]) == (3600 * 1_000_000_000, 200_000)
        await write_outputs(server, "e1", 16)
        service = Service("replay", server.data, {})
        await service.start()
        try:
            await until(lambda: place.is_dir() and any(name.endswith(".gz") for name in os.listdir(place)))
        finally:
            await service.kill()
        written, _ = in_segments(place)
        assert written[:3] == (await everything(server))[:3]


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from infra.bus.connection import open_bus
from infra.export.sink import Sink
from infra.settings import Retention
from infra.verify.export import verify_export
from services.replay import expiring
from services.replay.expiring import Expiring

async def main(url, password, place):
    expiring.SEGMENT_EVENTS = 10
    write, count = Sink.write, 0
    async def killing(self, data):
        nonlocal count
        count += 1
        if count == 25:
            await self.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        await write(self, data)
    Sink.write = killing
    async with open_bus(url, "replay", password, "killed") as bus:
        await Expiring(bus, Retention(export_to=Path(place))).catch_up()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_killed_writer_leaves_whole_files_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nats_in(tmp_path) as server:
        story = await a_session(server, steps=4)
        await write_outputs(server, "e2", 9)
        await story.manifest()
        await write_outputs(server, "e3", 11)
        await limited(server, max_bytes=240 * KILOBYTES)
        place = tmp_path / "kept"
        arguments = (server.url, server.password("replay"), str(place))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, *arguments)
        assert await process.wait() == -signal.SIGKILL
        names = os.listdir(place)
        assert len([name for name in names if name.endswith(".part")]) == 1
        assert len([name for name in names if name.endswith(".gz")]) == 1
        before = in_segments(place)
        monkeypatch.setattr(expiring, "SEGMENT_EVENTS", 10)
        spans = await Expiring(await server.connect("replay"), Retention(export_to=place)).catch_up()
        assert spans[0].first == 11
        assert len(spans) > 1
        assert not [name for name in os.listdir(place) if name.endswith(".part")]
        written, contents = in_segments(place)
        assert written[:10] == before[0]
        assert own(written) == own(await everything(server))[: len(own(written))]
        assert len(contents) == len(set(contents))


async def test_a_place_that_cannot_be_written_is_complained_of_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(expiring, "EVERY_S", 0.01)
    tries = 0

    async def counted(self: Expiring) -> Any:
        nonlocal tries
        tries += 1
        return await catch_up(self)

    catch_up = Expiring.catch_up
    monkeypatch.setattr(Expiring, "catch_up", counted)
    async with nats_in(tmp_path) as server:
        await write_outputs(server, "e2", 20)
        await limited(server, max_bytes=200 * KILOBYTES)
        place = tmp_path / "kept"
        place.write_bytes(b"not a directory")
        running = asyncio.create_task(Expiring(await server.connect("replay"), Retention(export_to=place)).run())
        await until(lambda: tries > 5)
        place.unlink()
        await until(lambda: place.is_dir() and any(name.endswith(".gz") for name in os.listdir(place)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    complaints = [
        each for each in caplog.records if each.levelno == logging.ERROR and "cannot be written" in each.message
    ]
    assert len(complaints) == 1


def test_what_a_log_has_in_no_file_is_counted_by_what_is_left_of_each() -> None:
    segments = [Segment(1, 10, 1000), Segment(11, 20, 2000)]
    assert unexported_bytes(5000, 1, segments) == 2000
    assert unexported_bytes(4500, 6, segments) == 2000
    assert unexported_bytes(3000, 16, segments) == 2000
    assert unexported_bytes(2000, 30, segments) == 2000
