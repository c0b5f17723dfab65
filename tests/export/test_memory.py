import contextlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from contracts.events.agent import AgentTranscript
from contracts.events.command import CommandOutput, Stream
from contracts.payload import pack
from infra.blobs.blobs import Blobs
from infra.bus.out_stream import OutStream
from infra.client.imports import import_file
from infra.export.page.page import page
from infra.journal import Journal
from infra.log.live import LiveView
from tests.bus.servers import nats_in
from tests.export.casts import cast
from tests.export.rig import exported, taking_imports, tell

MEGABYTE = 1024 * 1024
EVENTS = 120
LARGE = 16 * MEGABYTE
MOST = 16 * MEGABYTE


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


async def test_memory_does_not_grow_with_what_is_exported_or_imported(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    file = tmp_path / "sb.jsonl"
    async with nats_in(tmp_path / "a") as server:
        executor = await server.connect("executor")
        journal = Journal(executor, service="executor", node="local")
        data = pack(b"a line of some output, as it comes\n" * (192 * 1024 // 34))
        async with OutStream(executor) as out:
            for number in range(EVENTS):
                fact = CommandOutput(
                    exec="e1", stream=Stream.STDOUT, offset=number, size=1, data=data.data, encoding=data.encoding
                )
                written = journal.write("sb", fact, id=f"sb.{number}")
                await out.send(written.subject, written.payload, written.id)
        name = await Blobs(await server.connect("agent")).put(os.urandom(LARGE))
        said = AgentTranscript(run="r", session="s", path="p", size=LARGE, sha256=name)
        await tell(server, "agent", "sb", said)
        view = LiveView(await server.connect("client"))
        with bounded_memory():
            result = await exported(view, file)
        with bounded_memory():
            await cast(server, tmp_path / "sb.cast")
        with bounded_memory(), (tmp_path / "sb.html").open("wb") as out:
            async for piece in page(view, "sb"):
                out.write(piece)
    assert (result.events, result.blobs) == (EVENTS + 1, 1)
    assert file.stat().st_size > 40 * MEGABYTE
    async with nats_in(tmp_path / "b") as server, taking_imports(server):
        client = await server.connect("client")
        with bounded_memory():
            answer = await import_file(client, file)
    assert (answer.events, answer.blobs) == (EVENTS + 1, 1)
