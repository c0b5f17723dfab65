"""The story of a sandbox, by what the log says of it. Pure."""

import tracemalloc
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from contracts.commands.command import Asker
from contracts.errors import Failure
from contracts.events import agent, command, file, guardian, health, network, tool
from contracts.message import EventHead, Fact
from contracts.payload import pack
from services.cli.showing_items import Begun, Called, Item, Ran, Reached, Returned, Touched
from services.cli.showing_output import Capture, Lines, excerpt_of
from services.cli.showing_story import Story
from services.cli.showing_text import Teller
from tests.compare.runs import Run


def told(run: Run, *, full: bool = False) -> list[Item]:
    story = Story(full=full)
    return [item for event in run.events for item in story.feed(*event)] + story.end()


def text(items: Iterable[Item], *, full: bool = False) -> str:
    teller = Teller(full=full)
    return "\n".join(line.plain for item in items for line in teller.lines(item))


def started(exec_id: str, *argv: str, asker: Asker = Asker.USER) -> Fact:
    return command.CommandStarted(exec=exec_id, argv=argv, cwd="/", asker=asker)


def wrote(exec_id: str, data: bytes, offset: int = 0) -> Fact:
    text_, encoding = pack(data)
    return command.CommandOutput(
        exec=exec_id, stream=command.Stream.STDOUT, offset=offset, size=len(data), data=text_, encoding=encoding
    )


def ended(exec_id: str) -> Fact:
    return command.CommandCompleted(
        exec=exec_id, exit=command.Exit(code=0), duration_ms=1, totals=command.Totals(stdout=1)
    )


def modified(path: str, diff: str = "") -> Fact:
    return file.FileModified(path=path, facts=file.FileFacts(size=1, mode=0o644, diff=diff))


def test_files_that_change_while_a_command_runs_are_told_after_it() -> None:
    run = Run("sb")
    run.tell(started("e", "make"))
    run.tell(modified("/workspace/a"))
    run.tell(modified("/workspace/b"))
    run.tell(ended("e"))
    made, touched = told(run)
    assert isinstance(made, Ran)
    assert isinstance(touched, Touched)
    assert [change.path for change in touched.changes] == ["/workspace/a", "/workspace/b"]


def test_a_command_that_was_rejected_is_not_said_to_have_begun() -> None:
    run = Run("sb")
    failure = Failure(code="SANDBOX_EXEC_FAILED", message="nosuch: No such file or directory", retryable=False)
    run.tell(command.CommandRejected(exec="e", failure=failure, cause="x"))
    assert text(told(run)).strip().endswith("$ (never ran)  rejected: nosuch: No such file or directory")


def test_a_command_that_goes_on_while_something_is_said_is_told_at_its_beginning_and_at_its_end() -> None:
    run = Run("sb")
    run.tell(started("server", "serve"))
    run.says("It is up.")
    run.tell(wrote("server", b"bye\n"))
    run.tell(ended("server"))
    run.tell(started("open", "sleep"))
    items = told(run)
    assert [type(item).__name__ for item in items] == ["Begun", "Said", "Ran", "Ran"]
    assert isinstance(items[0], Begun)
    assert "… exit 0 in 1 ms  $ serve" in text(items)
    assert "$ sleep  goes on" in text(items)


def test_what_an_agents_call_does_is_told_with_the_call() -> None:
    run = Run("sb")
    run.tell(agent.AgentStarted(run="run", runtime="claude", prompt="Go"))
    run.tell(started("p", "claude", asker=Asker.AGENT))
    run.tell(agent.AgentAttached(run="run", process="p", attempt=1))
    run.tell(wrote("p", b'{"a":1}\n'))
    run.tell(agent.AgentToolUse(run="run", call="1", tool="Bash", input={"command": "ls\n-l"}))
    run.tell(started("e", "ls", asker=Asker.AGENT))
    run.tell(ended("e"))
    run.tell(tool.ToolInvoked(call="x", tool="write", arguments={"path": "a"}))
    run.tell(tool.ToolReturned(call="x", tool="write", duration_ms=1))
    run.tell(agent.AgentToolResult(run="run", call="1", ok=True, output="a\nb"))
    run.tell(ended("p"))
    items = told(run)
    assert [type(item).__name__ for item in items] == ["RunMoved", "Called", "Worked", "Returned"]
    assert isinstance(items[1], Called)
    assert isinstance(items[3], Returned)
    shown = text(items)
    assert "→ Bash  ls  (+1 lines)" in shown
    assert '{"a":1}' not in shown
    assert '{"a":1}' in text(told(run, full=True), full=True)


def test_denials_findings_and_deaths_are_loud() -> None:
    run = Run("sb")
    for _ in range(3):
        run.tell(network.NetworkDenied(host="evil", port=80, method="GET", reason="not allowed", count=2))
    run.tell(network.NetworkAllowed(host="good", port=443, method="GET", received_bytes=5))
    run.tell(guardian.GuardianIntervention(rule="loop", step="guide", text="Stop it", evidence=(3, 4)))
    run.tell(health.HealthDied(cause=health.DeathCause.OOM, detail="too much", last_output="last words\n"))
    items = told(run)
    assert isinstance(items[0], Reached)
    shown = text(items)
    for words in (
        "✗ DENIED evil:80 6 times: not allowed",
        "⇄ good:443  1 request",
        "guardian loop: guide: Stop it (events 3, 4)",
        "it died: oom: too much",
        "│ last words",
    ):
        assert words in shown


EVIL = "\x1b]0;t\x07\x1b[2J\r\n\u202e\x00\x9b31m<b>"


@settings(deadline=None, max_examples=50)
@given(st.text("".join(set(EVIL)) + "ab\n", max_size=200))
def test_nothing_from_inside_moves_the_cursor(evil: str) -> None:
    run = Run("sb")
    run.tell(agent.AgentStarted(run="run", runtime=evil, prompt=evil, model=evil))
    run.command(evil, evil.encode())
    run.says(evil)
    run.call(evil, {"command": evil}, evil)
    run.tell(agent.AgentApprovalRequested(run="run", approval="ap", tool=evil, input={"x": evil}, reason=evil))
    run.tell(agent.AgentApproved(run="run", approval="ap", by=evil, reason=evil))
    run.tell(agent.UserMessage(run="run", text=evil, by=evil))
    run.tell(modified(evil, f"+{evil}\n-{evil}"))
    run.tell(network.NetworkDenied(host=evil, port=1, method=evil, reason=evil))
    run.tell(guardian.GuardianObserved(rule=evil, finding=evil, evidence=()))
    run.tell(health.HealthDied(cause=health.DeathCause.EXIT, detail=evil, last_output=evil))
    for full in (False, True):
        for line in text(told(run, full=full), full=full).split("\n"):
            assert line.isprintable(), repr(line)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(["a", "b\n", "\r", "\r\n", "x\x1b[1m", "\n\n"]), max_size=30), st.integers(1, 5))
def test_how_output_was_cut_makes_no_difference_to_its_lines(parts: list[str], size: int) -> None:
    whole = "".join(parts)
    reading, capture = Lines(), Capture()
    for at in range(0, len(whole), size):
        capture.add(reading.feed(whole[at : at + size]))
    capture.add(reading.rest())
    assert capture.excerpt() == excerpt_of(whole)


def test_of_many_lines_at_once_only_the_ends_are_looked_at_and_all_are_counted() -> None:
    whole = "".join(f"{number}\n" for number in range(1000)) + "the end"
    reading, capture = Lines(), Capture()
    capture.skim(reading.skim(whole))
    capture.add(reading.rest())
    assert capture.excerpt() == excerpt_of(whole)


def test_a_flood_takes_no_memory() -> None:
    run = Run("sb")
    run.tell(started("e", "yes"))
    piece = wrote("e", b"y\n" * 5000 + b"x" * 100_000 + b"\n")
    _, head, _ = run.events[0]
    many = Run("sb")
    many.tell(file.FileBatch(changes=tuple(_change(index) for index in range(100))))
    _, files, batch = many.events[0]
    story = Story()
    story.feed(*run.events[0])
    tracemalloc.start()
    for sequence in range(2, 102):
        assert story.feed(sequence, _typed(head, "command.output"), piece) == []
        assert story.feed(sequence, files, batch) == []
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 1024 * 1024
    made, touched = [*story.feed(300, _typed(head, "command.completed"), ended("e")), *story.end()]
    assert isinstance(made, Ran)
    assert made.output.left_out == 100 * 5001 - 8
    assert isinstance(touched, Touched)
    assert touched.more == 100 * 100 - len(touched.changes)


def _change(index: int) -> file.FileChange:
    facts = file.FileFacts(size=1, mode=0o644, diff="+x\n" * 100_000)
    return file.FileChange(action=file.Action.MODIFIED, path=f"/workspace/{index}", facts=facts)


def _typed(head: EventHead, kind: str) -> EventHead:
    return replace(head, type=kind)
