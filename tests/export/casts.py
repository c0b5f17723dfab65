"""A session with everything that a terminal shows, as a cast."""

import datetime
import json
from pathlib import Path
from typing import Any

from contracts.events.agent import AgentToolUse
from contracts.events.command import (
    CommandCompleted,
    CommandInput,
    CommandOutput,
    CommandStarted,
    Exit,
    Stream,
    TerminalSize,
    Totals,
)
from contracts.message import Fact
from contracts.payload import pack
from infra.export.cast import Cast, write_cast
from infra.export.jsonl import span_of
from infra.export.sink import sink_to
from infra.journal import Journal
from infra.log.live import LiveView
from tests.bus.servers import Server

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SPOKEN = "grüß <script>alert(1)</script> 日本"


def _output(exec_id: str, stream: Stream, data: bytes) -> CommandOutput:
    packed = pack(data)
    return CommandOutput(
        exec=exec_id, stream=stream, offset=0, size=len(data), data=packed.data, encoding=packed.encoding
    )


def _ended(exec_id: str, outcome: Exit) -> CommandCompleted:
    return CommandCompleted(exec=exec_id, exit=outcome, duration_ms=1500, totals=Totals())


def session() -> list[tuple[float, str, Fact]]:
    """Seconds after the start, who says it, and what."""
    spoken = SPOKEN.encode()
    cut = spoken.index("ü".encode()) + 1
    typed = pack(b"q")
    return [
        (0, "executor", CommandStarted(exec="e1", argv=("vi", "x"), cwd="/", pty=TerminalSize(rows=30, cols=100))),
        (0.5, "executor", _output("e1", Stream.PTY, spoken[:cut])),
        (1.0, "executor", _output("e1", Stream.PTY, spoken[cut:] + b"\r\n")),
        (1.25, "executor", CommandInput(exec="e1", offset=0, size=1, data=typed.data, encoding=typed.encoding)),
        (1.5, "executor", _resize("e1", 20, 60)),
        (2.0, "executor", _ended("e1", Exit(code=3))),
        (62.0, "agent", AgentToolUse(run="r1", tool="Bash", call="c1", input={})),
        (61.5, "executor", CommandStarted(exec="e2", argv=("make",), cwd="/")),
        (63.0, "executor", _output("e2", Stream.STDOUT, b"one\ntwo\n\xff")),
        (64.0, "executor", _ended("e2", Exit(signal=9))),
    ]


def _resize(exec_id: str, rows: int, cols: int) -> CommandInput:
    empty = pack(b"")
    size = TerminalSize(rows=rows, cols=cols)
    return CommandInput(exec=exec_id, offset=1, size=0, data=empty.data, encoding=empty.encoding, resize=size)


async def record_session(server: Server) -> None:
    for number, (seconds, service, fact) in enumerate(session()):
        journal = Journal(await server.connect(service), service=service, node="local")
        time = START + datetime.timedelta(seconds=seconds)
        await journal.append(journal.write("sb", fact, id=f"sb.{number}", time=time))


async def cast(server: Server, file: Path, sandbox: str = "sb", first: int | None = None, **options: Any) -> Cast:
    view = LiveView(await server.connect("client"))
    async with sink_to(file) as sink:
        return await write_cast(view, sink, await span_of(view, sandbox, first), sandbox=sandbox, **options)


def parsed(file: Path) -> tuple[dict[str, Any], list[list[Any]]]:
    header, *events = [json.loads(line) for line in file.read_text().splitlines()]
    return header, events
