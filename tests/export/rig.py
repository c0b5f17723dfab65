"""A recorded session in a real log, and the part of the replay service that takes sessions in."""

import contextlib
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

from contracts import exports, subjects
from contracts.chain import Message, Range, genesis
from contracts.errors import Invalid
from contracts.events.sandbox import SandboxCreating
from contracts.exports import Header, Line, Piece, decode_line, encode_line, encode_message
from contracts.message import Fact
from contracts.spec import Isolation, SandboxSpec
from infra.blobs.blobs import Blobs
from infra.bus import reader
from infra.bus.broker import make_broker
from infra.export.jsonl import Exported, Span, export, message_of, span_of
from infra.export.sink import sink_to
from infra.journal import Journal
from infra.log.view import LogView
from services.replay.archive.imports import Imports, open_imports
from services.replay.archive.routes import served_place
from services.replay.files import FilesInTime
from services.replay.handlers import Historian
from services.replay.routes import add_routes
from tests.bus.servers import Server
from tests.manifest.story import Story
from tests.playing.past import record

LOG = "log-of-tests"


async def a_session(server: Server, sandbox: str = "sb", *, steps: int = 12, seed: int = 7) -> Story:
    """Its creation, a command, and changes of its files, with contents."""
    await tell(server, "spawner", sandbox, SandboxCreating(spec=SandboxSpec(), isolation=Isolation.LOCAL, node="local"))
    story = Story(Blobs(await server.connect("file_watcher")), sandbox, seed)
    await story.ready()
    await record(server, sandbox)
    for _ in range(steps):
        await story.step()
    await story.manifest()
    return story


async def tell(server: Server, service: str, sandbox: str, fact: Fact, number: int = 0) -> int:
    journal = Journal(await server.connect(service), service=service, node="local")
    written = journal.write(sandbox, fact, id=f"{sandbox}.{type(fact).__name__}.{number}")
    return await journal.append(written)


async def checkpoint(server: Server, *, log: str = LOG, first: int = 1, previous: str | None = None) -> int:
    """Of everything that is stored, as the audit writes it; not signed."""
    bus = await server.connect("replay")
    grown = Range(log, first, previous or genesis(log))
    async for entry in reader.read(bus, [subjects.LOG], first, follow=False):
        grown.add(message_of(entry))
    return await tell(server, "replay", subjects.NO_SANDBOX, grown.checkpoint("00" * 32), grown.next)


async def exported(
    view: LogView, file: Path, sandbox: str | None = "sb", *, span: Span | None = None, blobs: bool = True
) -> Exported:
    async with sink_to(file) as sink:
        return await export(view, sink, span or await span_of(view, sandbox), sandbox=sandbox, blobs=blobs)


@contextlib.asynccontextmanager
async def taking_imports(server: Server) -> AsyncIterator[Imports]:
    """What the replay service runs for imports and for files, and nothing else of it."""
    bus = await server.connect("replay")
    broker = make_broker(bus)
    async with open_imports(bus) as imports:
        historian = Historian(imports.answers(), FilesInTime(bus).answers())
        add_routes(broker, historian)
        await broker.start()
        async with served_place(bus, historian, imports.place):
            try:
                yield imports
            finally:
                await broker.stop()


def lines_of(file: Path) -> list[Line]:
    return [decode_line(line) for line in file.read_bytes().splitlines()]


def event_lines(file: Path) -> list[bytes]:
    return [line for line in file.read_bytes().splitlines() if line.startswith(b'{"sequence"')]


def blobs_of(file: Path) -> dict[str, bytes]:
    """Every content, put together and checked."""
    found: dict[str, bytearray] = {}
    for line in lines_of(file):
        if isinstance(line, Piece):
            data = found.setdefault(line.blob, bytearray())
            assert len(data) == line.offset
            data += line.data_base64
    for name, data in found.items():
        assert hashlib.sha256(data).hexdigest() == name
    return {name: bytes(data) for name, data in found.items()}


def written(file: Path, lines: list[Line | bytes]) -> Path:
    """An export as somebody else would write it; the number of events and contents at its end is right."""
    with file.open("wb") as out:
        for line in lines:
            out.write(_encoded(line))
        events = sum(isinstance(line, Message) for line in lines)
        blobs = sum(b'"last":true' in _encoded(line)[-20:] for line in lines)
        out.write(encode_line(exports.End(events=events, blobs=blobs)))
    return file


def _encoded(line: Line | bytes) -> bytes:
    if isinstance(line, bytes):
        return line
    return encode_message(line) if isinstance(line, Message) else encode_line(line)


def header_of(file: Path) -> Header:
    header = lines_of(file)[0]
    if not isinstance(header, Header):
        raise Invalid("no header")
    return header
