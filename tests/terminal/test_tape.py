"""Events in, frames out: what a player or an export has to show."""

import datetime
from collections.abc import Iterable

import msgspec

from contracts.errors import Invalid
from contracts.events import agent, command
from contracts.events.command import Exit, Stream, TerminalSize, Totals
from contracts.message import EventHead, Fact
from contracts.payload import pack
from contracts.tape import REMEMBERED, Frame, FrameKind, Tape

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
RESET = b"\x1b7\x1b[r\x1b8\x1b[0m\x1b(B\x0f\x1b[4;20l\x1b[?7h\x1b[?25h"


def head(sequence: int) -> EventHead:
    time = NOW + datetime.timedelta(seconds=sequence)
    return EventHead(id=f"e-{sequence}", source="test", type="a.b", time=time, sandboxid="sb", data=msgspec.Raw(b"{}"))


def play(facts: Iterable[Fact | None], exec: str | None = None) -> list[Frame]:  # noqa: A002
    tape = Tape(exec)
    return [frame for at, fact in enumerate(facts, 1) for frame in tape.feed(at, head(at), fact)]


def started(exec: str = "x", *argv: str, pty: TerminalSize | None = None) -> command.CommandStarted:  # noqa: A002
    return command.CommandStarted(exec=exec, argv=argv or ("ls",), cwd="/", pty=pty)


def output(data: bytes, exec: str = "x", stream: Stream = Stream.STDOUT) -> command.CommandOutput:  # noqa: A002
    packed = pack(data)
    return command.CommandOutput(
        exec=exec, stream=stream, offset=0, size=len(data), data=packed.data, encoding=packed.encoding
    )


def completed(exec: str = "x", code: int = 0) -> command.CommandCompleted:  # noqa: A002
    return command.CommandCompleted(exec=exec, exit=Exit(code=code), duration_ms=1234.4, totals=Totals())


def resized(rows: int, cols: int) -> command.CommandInput:
    size = TerminalSize(rows=rows, cols=cols)
    return command.CommandInput(exec="x", offset=0, size=0, data="", encoding=pack(b"").encoding, resize=size)


def shown(frames: list[Frame]) -> bytes:
    return b"".join(frame.data for frame in frames if frame.kind == FrameKind.OUTPUT)


def marks(frames: list[Frame]) -> list[str]:
    return [frame.label for frame in frames if frame.kind == FrameKind.MARK]


def test_a_command_without_a_terminal_gets_a_heading_carriage_returns_and_an_end() -> None:
    frames = play(
        [started("x", "sh", "-c", "make test"), output(b"a\nb\n"), output(b"no\n", stream=Stream.STDERR), completed()]
    )
    assert shown(frames) == (
        b"\x1b[0m\x1b[1m$ make test\x1b[0m\r\na\r\nb\r\nno\r\n"
        b"\x1b[0m\x1b[2m[Process exited with code 0 in 1234ms]\x1b[0m\r\n"
    )
    assert marks(frames) == ["$ make test", "exit 0"]
    assert [frame.sequence for frame in frames] == [1, 1, 2, 3, 4, 4]
    assert frames[2].time == NOW + datetime.timedelta(seconds=2)
    assert {frame.exec for frame in frames} == {"x"}


def test_a_fresh_line_comes_first_where_the_last_one_was_not_ended() -> None:
    frames = play(
        [started(), output(b"no end"), completed(), started("y"), output(b"x\n\x1b[0m\x1b[K", "y"), started("z")]
    )
    assert b"no end\r\n\x1b[0m\x1b[2m[Process" in shown(frames)
    assert b"x\r\n\x1b[0m\x1b[K\x1b[0m\x1b[1m$ ls" in shown(frames)


def test_a_terminal_keeps_its_bytes_and_is_put_right_at_its_end() -> None:
    pty = TerminalSize(rows=30, cols=100)
    frames = play(
        [started(pty=pty), output(b"\xff\n", stream=Stream.PTY), output(b"\r\n", stream=Stream.PTY), completed()]
    )
    assert [frame.size for frame in frames if frame.kind == FrameKind.RESIZE] == [pty]
    assert b"\xff\n\r\n" + RESET + b"\x1b[0m\x1b[2m[Process" in shown(frames)


def test_a_program_that_dies_in_the_alternate_screen_leaves_it() -> None:
    pty = TerminalSize(rows=24, cols=80)
    parts = [output(part, stream=Stream.PTY) for part in (b"\x1b[?10", b"49hedit", b"or")]
    assert b"\x1b[?1049l" + RESET in shown(play([started(pty=pty), *parts, completed()]))
    left = output(b"\x1b[?1049l", stream=Stream.PTY)
    assert b"\x1b[?1049l" + RESET not in shown(
        play([started(pty=pty), *parts, output(b".", stream=Stream.PTY), left, output(b"."), completed()])
    )


def test_sizes_follow_and_none_is_too_large() -> None:
    frames = play([started(), resized(50, 132), resized(50, 132), resized(0, 10**9), started("y")])
    sizes = [frame.size for frame in frames if frame.kind == FrameKind.RESIZE]
    assert sizes == [TerminalSize(rows=r, cols=c) for r, c in ((50, 132), (1, 1000), (24, 80))]


def test_what_was_typed_is_told() -> None:
    typed = command.CommandInput(exec="x", offset=0, size=3, data="ls\r", encoding=pack(b"").encoding)
    assert [(f.kind, f.data) for f in play([typed])] == [(FrameKind.INPUT, b"ls\r")]


def test_one_command_can_be_played_alone() -> None:
    facts = [
        started("a", "first"),
        started("b", "second"),
        output(b"1\n", "a"),
        output(b"2\n", "b"),
        completed("a"),
        completed("b", 3),
    ]
    frames = play(facts, "b")
    assert marks(frames) == ["$ second", "exit 3"]
    assert shown(frames).startswith(b"\x1b[0m\x1b[1m$ second\x1b[0m\r\n2\r\n\x1b[0m\x1b[2m[")


def test_nothing_in_a_label_or_heading_can_move_a_cursor() -> None:
    frames = play(
        [started("x", "echo", "\x1b[2J\n\u202eevil", "x" * 5000), agent.AgentMessage(run="r", text="a\x1b]0;t\x07\n")]
    )
    heading = shown(frames).removeprefix(b"\x1b[0m\x1b[1m").removesuffix(b"\x1b[0m\r\n").decode()
    assert heading.startswith("$ echo '\\x1b[2J\\n\\u202eevil' xxx")
    assert len(heading) < 1100
    assert all(frame.label.isprintable() and len(frame.label) < 1000 for frame in frames)
    assert marks(frames)[1] == "agent: a\\x1b]0;t\\x07\\n"


def test_what_agents_and_people_say_are_marks() -> None:
    frames = play(
        [
            agent.AgentMessage(run="r", text="part", partial=True),
            agent.AgentMessage(run="r", text="whole"),
            agent.AgentToolUse(run="r", call="c", tool="Bash"),
            agent.AgentApprovalRequested(run="r", approval="a", tool="Write"),
            agent.AgentApproved(run="r", approval="a", by="user"),
            agent.UserMessage(run="r", text="go on"),
            None,
        ]
    )
    assert marks(frames) == ["agent: whole", "tool: Bash", "asks: Write", "approved by user", "user: go on"]
    assert not shown(frames)


def test_every_kind_of_end_is_told() -> None:
    totals = Totals()
    ends: list[Fact] = [
        command.CommandCompleted(exec="x", exit=Exit(signal=9), duration_ms=1, totals=totals),
        command.CommandTimedOut(exec="x", limit_ms=5, exit=None, duration_ms=5, totals=totals),
        command.CommandCancelled(exec="x", exit=None, duration_ms=1, totals=totals, cause="asked"),
        command.CommandRejected(exec="x", failure=Invalid("no").failure(), cause="no such\nprogram"),
        command.CommandLost(exec="x", cause="node died", detail="", totals=totals),
    ]
    assert marks(play(ends)) == ["signal 9", "timed out", "cancelled", "rejected", "lost"]
    assert b"[Process not run: no such\\nprogram]" in shown(play(ends))


def test_output_that_cannot_be_read_is_passed_over() -> None:
    broken = msgspec.structs.replace(output(b"\xff"), data="no base64")
    assert play([broken, output(b"fine")])[-1].data == b"fine"


def test_commands_without_end_are_forgotten_in_the_end() -> None:
    tape = Tape()
    for at in range(REMEMBERED + 10):
        tape.feed(at, head(at), started(f"x-{at}"))
    assert len(tape._playing) == REMEMBERED
