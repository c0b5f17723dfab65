import gzip
import os
from pathlib import Path

import pytest

from contracts import subjects
from contracts.chain import Message
from contracts.contents import named_by
from contracts.errors import Invalid, SandboxNotFound
from contracts.events.agent import AgentTranscript
from contracts.events.audit import AuditRotated
from contracts.events.command import CommandInput
from contracts.exports import End, Header
from contracts.payload import Encoding
from infra.blobs import layout
from infra.bus import reader
from infra.bus.publisher import append
from infra.export.jsonl import Span, export, message_of, span_of
from infra.export.sink import sink_to
from infra.log.live import LiveView
from infra.manifest.stored import load_manifest
from tests.bus.servers import nats_in
from tests.export.rig import LOG, a_session, blobs_of, checkpoint, exported, header_of, lines_of, tell
from tests.manifest.story import Story


async def test_an_export_has_every_event_as_it_is_what_proves_it_and_each_content_once(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        before = await a_session(server, "other", steps=2, seed=1)
        first = await checkpoint(server)
        story = await a_session(server)
        large = os.urandom(layout.CHUNK_BYTES * 2 + 1)
        name = await story.blobs.put(large)
        said = AgentTranscript(run="r", session="s", path="p", size=len(large), sha256=name)
        last = await tell(server, "agent", "sb", said)
        second = await checkpoint(server)
        await tell(
            server, "executor", "other", CommandInput(exec="e9", offset=0, size=0, data="", encoding=Encoding.UTF8)
        )
        third = await checkpoint(server)
        client = await server.connect("client")
        view, file = LiveView(client), tmp_path / "sb.jsonl"
        result = await exported(view, file)

        everything = [message_of(entry) async for entry in reader.read(client, ["cloche.log.>"], 1, follow=False)]
        own = [each for each in everything if each.subject.startswith("cloche.log.sb.")]
        *head, end = lines_of(file)
        header, events = head[0], [line for line in head if isinstance(line, Message)]
        assert isinstance(header, Header)
        assert (header.log, header.sandbox) == (LOG, "sb")
        assert (header.first_sequence, header.last_sequence) == (own[0].sequence, last)
        proof = next(each for each in everything if each.sequence == second)
        assert events == [*own, proof], f"not {first}, which proves what was before, nor {third}"
        contents = blobs_of(file)
        assert contents[name] == large
        assert len(contents) == result.blobs == len({*await _named(story), name})
        assert end == End(events=len(events), blobs=result.blobs)
        assert result.missing == 0
        assert not set(contents) & {entry.blob for entry in before.tree.values() if entry.blob} - await _named(story)

        whole = await exported(view, tmp_path / "log.jsonl.gz", None)
        packed = gzip.decompress((tmp_path / "log.jsonl.gz").read_bytes())
        (tmp_path / "log.jsonl").write_bytes(packed)
        assert [line for line in lines_of(tmp_path / "log.jsonl") if isinstance(line, Message)] == everything
        assert whole.events == len(everything)


async def _named(story: Story) -> set[str]:
    """What its events name, and the manifests that they name."""
    names: set[str] = set()
    async for entry in reader.read(story.blobs.bus, subjects.events_of(story.sandbox, family="file"), follow=False):
        named = named_by(entry.subject, entry.data)
        names |= set(named.contents)
        if named.manifest:
            names.add(named.manifest)
            tree = (await load_manifest(story.blobs, named.manifest)).tree
            names |= {each.blob for each in tree.values() if each.blob}
    return names


async def test_a_part_of_a_session_has_the_checkpoint_that_covers_its_end_and_later_keys(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = await a_session(server)
        proven = await checkpoint(server)
        rotated = AuditRotated(log=LOG, key="a" * 64, next="b" * 64, signature="", proof="")
        later = await tell(server, "replay", "_", rotated)
        sequences = sorted(story.trees)
        span = Span(sequences[1], sequences[-2])
        view = LiveView(await server.connect("client"))
        await exported(view, tmp_path / "part.jsonl", span=span, blobs=False)
        header = header_of(tmp_path / "part.jsonl")
        events = [line.sequence for line in lines_of(tmp_path / "part.jsonl") if isinstance(line, Message)]
        assert (header.first_sequence, header.last_sequence) == span
        assert events[0] == span.first
        assert events[-3:] == [span.last, proven, later]
        assert not blobs_of(tmp_path / "part.jsonl")
        with pytest.raises(SandboxNotFound, match="no sandbox 'nobody'"):
            await span_of(view, "nobody")
        with pytest.raises(Invalid, match="nothing to export"):
            await span_of(view, "sb", later + 5)


async def test_a_payload_that_is_no_line_of_json_is_exported_all_the_same(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        executor = await server.connect("executor")
        odd = [b"\xff\x00", b'{"a":\n1}', b"", b'{"a":1} ', b"[1]"]
        for number, payload in enumerate(odd):
            await append(executor, "cloche.log.sb.command.output.e1", payload, f"id-{number}")
        await exported(LiveView(await server.connect("client")), tmp_path / "odd.jsonl")
        found = [line.payload for line in lines_of(tmp_path / "odd.jsonl") if isinstance(line, Message)]
        assert found == odd


async def test_an_export_that_fails_leaves_no_file_and_the_one_before(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        await a_session(server, steps=1)
        view, file = LiveView(await server.connect("client")), tmp_path / "out" / "sb.jsonl.gz"
        file.parent.mkdir()
        file.write_bytes(b"earlier")

        def interrupt(done: int, _whole: int) -> None:
            if done > 3:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            async with sink_to(file) as sink:
                await export(view, sink, await span_of(view, "sb"), sandbox="sb", progress=interrupt)
        assert os.listdir(file.parent) == [file.name]
        assert file.read_bytes() == b"earlier"
        await exported(view, file)
        assert gzip.decompress(file.read_bytes()).endswith(b"}\n")
        assert file.stat().st_mode & 0o777 == 0o600
