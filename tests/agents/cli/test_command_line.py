"""`cloche agent` at a shell: everything that people do with agents, on one node."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.ids import new_id
from tests.cli.shell import PATIENCE_S, Said, Shell, up_in
from tests.cli.terminal import at_a_terminal

HELLO = [
    {"think": "about it"},
    {"say": "I begin."},
    {"run": "echo from inside; touch made"},
    {"spend": {"input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.0123}},
    {"say": "Done."},
]
TALKS = {"turns": [[{"say": "First."}], [{"say": "You said ${message}"}]], "otherwise": [{"say": "More ${message}"}]}
WAITS = [{"run": "until test -e go; do sleep 0.05; done"}, {"run": "true"}, {"say": "Done."}]

GUARDED = """
[guardian.repeated_call]
times = 3
step = "guidance"
"""


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    place = tmp_path_factory.mktemp("node")
    (place / "cloche.toml").write_text(GUARDED)
    with up_in(place, DOCKER_HOST="unix:///nobody/listens.sock") as shell:
        yield shell


@pytest.fixture
def box(cloche: Shell) -> Iterator[str]:
    """A sandbox of its own."""
    name = new_id("box")
    assert cloche("create", "--id", name).code == 0
    yield name
    cloche("rm", name)


@pytest.fixture
def script(tmp_path: Path) -> "Script":
    return Script(tmp_path)


class Script:
    """Makes files for `--script`."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __call__(self, content: Any) -> list[str]:
        path = self._place / "agent.json"
        path.write_text(json.dumps(content if isinstance(content, dict) else {"steps": content}))
        return ["--script", str(path)]


def lines(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def started(cloche: Shell, box: str, *arguments: str) -> str:
    (begun,) = lines(cloche("agent", "start", box, "--json", *arguments))
    return str(begun["run"])


def follow_until(cloche: Shell, box: str, wanted: bytes) -> None:
    """Reads the story until this stands in it."""
    with cloche.begun("agent", "follow", box) as process:
        assert process.stdout is not None
        while wanted not in (line := process.stdout.readline()):
            assert line, f"{wanted!r} never came"


def test_a_run_is_followed_to_its_end_as_a_story(cloche: Shell, box: str, script: Script) -> None:
    said = cloche("agent", "start", box, *script(HELLO), "--prompt", "make it", "-f")
    assert said.code == 0, said.err
    # A change of a file is told when it is noticed.
    told = [line for line in said.out.decode().splitlines() if not line.endswith("/made")]
    assert told[0].startswith("run run-")
    assert told[1:] == [
        "> make it",
        "│ about it",
        "│ I begin.",
        "→ run  echo from inside; touch made",
        "  │ from inside",
        "│ Done.",
        told[-3],
        "over: done",
        told[-1],
    ]
    assert "turn over: 1 tool call" in told[-3]
    assert "in all: 1 tool call, 1,234 tokens, $0.0123" in told[-1]
    again = cloche("agent", "follow", box)
    assert (again.code, again.out) == (0, said.out)
    (row,) = lines(cloche("agent", "ls", box, "--json"))
    assert (row["status"], row["tokens"], row["tool_calls"], row["prompt"]) == ("completed", 1234, 1, "make it")
    assert b"completed" in cloche("agent", "ls", box).out
    shown = cloche("agent", "show", box).out.decode()
    assert "is completed: done" in shown
    assert shown.endswith("Its last words:\n  │ Done.\n")


def test_json_is_the_events_as_they_stand_in_the_log(cloche: Shell, box: str, script: Script) -> None:
    told = lines(cloche("agent", "start", box, *script(HELLO), "-f", "--json"))
    types = [each["event"]["type"] for each in told]
    assert (types[0], types[-1]) == ("agent.started", "agent.completed")
    assert told == lines(cloche("agent", "follow", box, "--json"))
    logged = [each for each in lines(cloche("events", box, "--json")) if each["sequence"] == told[-1]["sequence"]]
    assert logged == told[-1:]


def test_a_run_that_fails_has_the_exit_code_of_a_failure(cloche: Shell, box: str, script: Script) -> None:
    said = cloche("agent", "start", box, *script([{"fail": "no more"}]), "-f")
    assert said.code == 1
    assert b"failed: no more" in said.out
    assert cloche("agent", "follow", box).code == 1
    assert b"had its agent fail" in cloche("why", box).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["start", "BOX", "--runtime", "script"], b"--prompt says what it is to do"),
        (["start", "BOX", "--runtime", "nonesuch", "--prompt", "go"], b"there is no runtime 'nonesuch'"),
        (["start", "BOX", "--runtime", "script", "--prompt", "go", "--max-usd", "0"], b"--max-usd 0"),
        (["start", "nobody", "--runtime", "script", "--prompt", "go"], b"there is no sandbox 'nobody'"),
        (["say", "BOX", "hi"], b"no run is open"),
        (["approve", "BOX"], b"nothing waits for an answer"),
        (["follow", "BOX"], b"no agent has run in sandbox"),
        (["chat", "BOX"], b"no agent has run in sandbox"),
        (["chat", "BOX", "--ask", "Bash"], b"name its --runtime"),
    ],
)
def test_a_mistake_is_told_in_one_line(cloche: Shell, empty: str, arguments: list[str], words: bytes) -> None:
    said = cloche("agent", *(empty if word == "BOX" else word for word in arguments))
    assert (said.code in (1, 2), said.out) == (True, b"")
    assert words in said.err
    assert said.err.startswith(b"cloche: ")
    assert said.err.count(b"\n") == 1


@pytest.fixture(scope="module")
def empty(cloche: Shell) -> str:
    assert cloche("create", "--id", "empty").code == 0
    return "empty"


def test_what_is_said_is_heard_by_the_open_run_and_else_by_one_that_goes_on(
    cloche: Shell, box: str, script: Script
) -> None:
    run = started(cloche, box, *script(WAITS))
    (said,) = lines(cloche("agent", "say", box, "look", "here", "--json"))
    assert said["run"] == run
    (waiting,) = lines(cloche("agent", "show", box, "--json"))
    assert [each["text"] for each in waiting["queued"]] == ["look here"]
    assert cloche("agent", "guide", box, "gently").code == 0
    cloche("exec", box, "--", "touch", "go")
    assert b"look here\xe2\x80\x9d is heard before its next tool call" in cloche("agent", "follow", box).out
    more = cloche("agent", "say", box, "and now?", "-f")
    assert more.code == 0
    assert f"goes on from {run}".encode() in more.err
    assert b"> and now?" in more.out
    newest = lines(cloche("agent", "ls", box, "--json"))[-1]
    assert (newest["resumed"], newest["status"]) == (run, "completed")


def test_approvals_are_listed_and_answered(cloche: Shell, box: str, script: Script) -> None:
    hides = f"touch long; : {'x' * 3000}; rm -rf nothing"
    steps = [{"run": "touch one"}, {"run": "touch two"}, {"run": hides}, {"run": "echo free"}]
    started(cloche, box, *script(steps), "--ask", "run", "--auto", "run:echo *")
    follow_until(cloche, box, b" command: touch one")
    (asked,) = lines(cloche("agent", "pending", box, "--json"))
    assert (asked["pending"]["tool"], asked["pending"]["subject"]) == ("run", "touch one")
    assert asked["pending"]["input"]["command"] == "touch one"
    approval = asked["pending"]["approval"]
    everywhere = cloche("agent", "pending").out.decode()
    assert f"{box} {approval}: asked " in everywhere
    assert "\n? may it use run\n  │ command: touch one\n" in everywhere
    (row,) = [line for line in cloche("ps").out.splitlines() if line.startswith(box.encode())]
    assert b"script asks" in row
    assert b"cloche agent pending" in cloche("why", box).out
    assert b"nope" in cloche("agent", "reject", box, "nope").err
    assert cloche("agent", "reject", box, "--reason", "not that one").code == 0
    follow_until(cloche, box, b" command: touch two")
    assert cloche("agent", "approve", box, approval).code == 2, "that one was answered"
    approved = cloche("agent", "approve", box, "--remember").out.decode()
    assert approved.startswith("approved in run-")
    assert approved.endswith("]: run\n  │ command: touch two\n")
    follow_until(cloche, box, b" command: touch long")
    refused = cloche("agent", "approve", box)
    assert (refused.code, refused.out) == (2, b"")
    (long,) = lines(cloche("agent", "pending", box, "--json"))
    assert f"look with `pending {long['pending']['approval']}`" in refused.err.decode()
    assert b"rm -rf" not in cloche("agent", "pending", box).out
    assert b"; rm -rf nothing\n" in cloche("agent", "pending", box, long["pending"]["approval"]).out
    assert cloche("agent", "approve", box, long["pending"]["approval"]).code == 0
    story = cloche("agent", "follow", box).out
    assert b"denied by user: not that one" in story
    assert cloche("exec", box, "--", "ls").out == b"long\ntwo\n"


def test_an_agent_is_paused_resumed_interrupted_and_stopped(cloche: Shell, box: str, script: Script) -> None:
    run = started(cloche, box, *script([{"run": "sleep 300"}, {"say": "never"}]), "--keep-open")
    follow_until(cloche, box, b"sleep 300")
    for verb, word, status in (
        ("pause", "paused", "paused"),
        ("resume", "resumed", "running"),
        ("interrupt", "interrupted", "waiting"),
        ("stop", "stopped", "completed"),
    ):
        said = cloche("agent", verb, box)
        assert (said.code, said.out.decode().rpartition(" ")[0]) == (0, f"{word} {run}")
        if verb != "interrupt":
            assert lines(cloche("agent", "show", box, "--json"))[0]["status"] == status
    story = cloche("agent", "follow", box)
    assert story.code == 0
    assert b"over: stopped: asked" in story.out


def test_leaving_a_run_that_is_followed_leaves_it_running_and_says_how_to_come_back(
    cloche: Shell, box: str, script: Script
) -> None:
    with cloche.begun("agent", "start", box, *script(WAITS), "-f") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while b"until test" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert f"cloche agent follow {box}".encode() in process.stderr.read()
    cloche("exec", box, "--", "touch", "go")
    assert b"over: done" in cloche("agent", "follow", box).out


def test_the_guardian_speaks_to_an_agent_that_repeats_itself(cloche: Shell, box: str, script: Script) -> None:
    steps = [{"repeat": 3, "steps": [{"run": "echo same"}]}, {"wait": {"message": True}}, {"run": "echo other"}]
    said = cloche("agent", "start", box, *script(steps), "-f")
    assert said.code == 0, said.err
    story = said.out.decode()
    word = "guardian guides> [GUARDIAN] run was called 3 times in a row"
    assert story.index(word) < story.index("→ run  echo other")


def test_runtimes_are_listed(cloche: Shell) -> None:
    found = {each["runtime"]: each for each in lines(cloche("agent", "runtimes", "--json"))}
    assert found["script"]["installed"]
    assert {"acp", "claude", "openhands"} <= set(found)
    assert b"--script FILE" in cloche("agent", "runtimes").out


def test_without_a_terminal_a_chat_is_lines_in_and_lines_out(cloche: Shell, box: str, script: Script) -> None:
    said = cloche("agent", "chat", box, *script(TALKS), stdin=b"hello\nagain\n//slash\n/nonsense\n")
    assert said.code == 0, said.err
    told = said.out.decode().splitlines()
    wanted = ["> hello", "│ First.", "user> again", "│ You said again", "user> /slash", "│ More /slash"]
    assert [line for line in told if line in wanted] == wanted
    assert any("there is no /nonsense" in line for line in told)
    assert "\x1b" not in said.out.decode()
    assert b"goes on: `cloche agent" in said.err


def test_a_chat_at_a_terminal(cloche: Shell, box: str, script: Script) -> None:
    steps = [{"ask": "really?", "tool": "deploy", "input": {"path": "prod"}}, {"say": "Deployed."}]
    content = {"turns": [[{"say": ["Hel", "lo."]}], steps], "otherwise": [{"run": "sleep 300"}]}
    with at_a_terminal(cloche, "agent", "chat", box, *script(content)) as person:
        person.sees(b"/help")
        person.types(b"hi there\r")
        person.sees(b"Hello.")
        person.sees(b"(waiting) > ")
        person.types("dröp".encode())
        person.sees("(waiting) > dröp".encode())
        person.types(b"\x15deploy it\r")
        person.sees(b"user> deploy it")
        person.sees(b"? may it use ")
        person.sees(b"(asks) > ")
        person.types(b"/approve go ahead\r")
        person.sees("│ path: prod".encode())
        person.sees(b"approved by user: go ahead")
        person.sees(b"Deployed.")
        person.sees(b"(waiting) > ")
        person.resizes(20, 30)
        person.types(b"a message that is longer than the window is wide")
        person.sees(b"window is wide")
        person.types(b"\r")
        person.sees(b"sleep 300")
        person.types(b"/interrupt wrong way\r")
        person.sees(b"was interrupted")
        person.types(b"/stop\r")
        person.sees(b"over: stopped")
        person.types(b"/quit\r")
        assert person.leaves() == 0
    assert lines(cloche("agent", "show", box, "--json"))[0]["status"] == "completed"


def test_leaving_a_chat_leaves_the_agent_at_work(cloche: Shell, box: str, script: Script) -> None:
    started(cloche, box, *script(WAITS))
    with at_a_terminal(cloche, "agent", "chat", box) as person:
        person.sees(b"(running) > ")
        person.types(b"not sent\x03")
        person.types(b"\x03")
        assert person.leaves() == 0
        assert b"goes on: `cloche agent" in person.shown
    (state,) = lines(cloche("agent", "show", box, "--json"))
    assert (state["status"], state["queued"]) == ("running", [])
