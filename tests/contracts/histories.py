"""Histories of one sandbox, built by hand: facts numbered as the log would number them."""

import datetime
from collections.abc import Iterable

import msgspec

from contracts import codec, registry
from contracts.events import command, sandbox
from contracts.message import EventHead, Fact
from contracts.payload import pack
from contracts.spec import Isolation, SandboxSpec
from contracts.state import Sequenced

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CREATING = sandbox.SandboxCreating(spec=SandboxSpec(), isolation=Isolation.LOCAL, node="n1")
CREATED = sandbox.SandboxCreated(
    node="n1", isolation=Isolation.LOCAL, workspace="/w", enforcement={"pids": "cgroup"}, container="c1"
)
STARTED = sandbox.SandboxStarted(instance="life-1")


def time_of(sequence: int) -> datetime.datetime:
    return START + datetime.timedelta(seconds=sequence)


def raw_head(sequence: int, tag: str, data: bytes, sandbox_id: str = "sb") -> EventHead:
    return EventHead(
        id=f"event-{sequence}",
        source="test",
        type=tag,
        time=time_of(sequence),
        sandboxid=sandbox_id,
        correlationid="asked-1",
        data=msgspec.Raw(data),
    )


def numbered(facts: Iterable[Fact], first: int = 1) -> list[Sequenced]:
    return [
        Sequenced(at, raw_head(at, registry.tag_of(fact), codec.encode(fact))) for at, fact in enumerate(facts, first)
    ]


def begun(exec_id: str = "x") -> command.CommandStarted:
    return command.CommandStarted(exec=exec_id, argv=("cat",), cwd="/w")


def output(
    raw: bytes,
    offset: int,
    stream: command.Stream = command.Stream.STDOUT,
    *,
    exec_id: str = "x",
    after_exit: bool = False,
) -> command.CommandOutput:
    data, encoding = pack(raw)
    return command.CommandOutput(
        exec=exec_id,
        stream=stream,
        offset=offset,
        size=len(raw),
        data=data,
        encoding=encoding,
        after_exit=after_exit,
    )


def typed(raw: bytes, offset: int, exec_id: str = "x") -> command.CommandInput:
    data, encoding = pack(raw)
    return command.CommandInput(exec=exec_id, offset=offset, size=len(raw), data=data, encoding=encoding)


def completed(exec_id: str = "x", **totals: int) -> command.CommandCompleted:
    return command.CommandCompleted(
        exec=exec_id, exit=command.Exit(code=0), duration_ms=1.5, totals=command.Totals(**totals)
    )
