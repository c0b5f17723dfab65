"""Sandboxes, their record and their node from the command line, and the mistakes that people make."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.shell import PATIENCE_S, Said, Shell, up_in
from tests.services.node import ROOT


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with up_in(tmp_path_factory.mktemp("node"), DOCKER_HOST="unix:///nobody/listens.sock") as shell:
        assert shell("create", "--id", "box").code == 0
        yield shell


def lines(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def test_create_prints_the_id_and_takes_parts_of_the_specification(cloche: Shell) -> None:
    assert cloche("create", "--id", "named").out == b"named\n"
    given = ["--set", "resources.memory_mb=777", "--set", "labels.team=core", "--set", "task_id=t1"]
    (state,) = lines(cloche("create", "--json", *given))
    assert (state["status"], state["spec"]["resources"]["memory_mb"]) == ("running", 777)
    assert state["spec"]["labels"] == {"team": "core"}
    assert [each["sandbox"] for each in lines(cloche("ps", "--json", "--task", "t1"))] == [state["sandbox"]]


def test_a_sandbox_is_stopped_started_and_removed_and_its_record_stays(cloche: Shell) -> None:
    cloche("create", "--id", "moved")
    assert cloche("exec", "moved", "--", "sh", "-c", "echo kept > kept").code == 0
    assert cloche("stop", "moved").out == b"moved stopped\n"
    said = cloche("exec", "moved", "--", "true")
    assert (said.code, said.err) == (125, b"cloche: command rejected: sandbox 'moved' is stopped\n")
    assert cloche("start", "moved").out == b"moved running\n"
    assert cloche("exec", "moved", "--", "cat", "kept").out == b"kept\n"
    assert cloche("rm", "moved").out == b"moved removed\n"
    assert b"moved" not in cloche("ps").out
    assert [each["status"] for each in lines(cloche("ps", "-a", "--json")) if each["sandbox"] == "moved"] == ["removed"]
    assert cloche("logs", "moved").out == b"kept\n"


def test_long_names_are_not_cut_in_a_narrow_terminal(cloche: Shell) -> None:
    name = "a-name-that-somebody-wants-to-copy-from-the-terminal"
    cloche("create", "--id", name)
    (row,) = [line for line in cloche("ps").out.decode().splitlines() if name in line]
    assert row.split()[:2] == [name, "running"]


def test_events_are_read_from_a_cursor_and_by_type(cloche: Shell) -> None:
    cloche("exec", "box", "--", "echo", "first")
    everything = lines(cloche("events", "box", "--json"))
    assert everything[0]["event"]["type"] == "sandbox.creating"
    assert all(each["event"]["sandboxid"] == "box" for each in everything)
    last = everything[-1]["sequence"]
    cloche("exec", "box", "--", "echo", "second")
    after = lines(cloche("events", "box", "--json", "--from", str(last + 1)))
    assert [each["event"]["type"] for each in after] == ["command.started", "command.output", "command.completed"]
    only = lines(cloche("events", "box", "--json", "--type", "command.output", "--type", "sandbox"))
    assert {each["event"]["type"] for each in only} == {
        "sandbox.creating", "sandbox.created", "sandbox.started", "command.output",
    }  # fmt: skip
    assert b"command.output" in cloche("events", "box").out


def test_events_can_be_followed(cloche: Shell) -> None:
    with cloche.begun("events", "box", "--json", "-f", "--type", "command.output") as process:
        assert process.stdout is not None
        cloche("exec", "box", "--", "echo", "for the follower")
        while (line := json.loads(process.stdout.readline()))["event"]["data"]["data"] != "for the follower\n":
            assert line["event"]["type"] == "command.output"


def test_logs_of_one_command_are_followed_to_its_end(cloche: Shell) -> None:
    with cloche.begun("exec", "box", "--", "sh", "-c", "echo up; while [ ! -e end ]; do sleep 0.05; done; echo end"):
        with cloche.begun("events", "box", "--json", "-f", "--type", "command.started") as events:
            assert events.stdout is not None
            while "[ ! -e end ]" not in (started := json.loads(events.stdout.readline())["event"]["data"])["argv"][-1]:
                pass
        with cloche.begun("logs", "box", started["exec"], "-f") as logs:
            assert logs.stdout is not None
            assert logs.stdout.readline() == b"up\n"
            assert cloche("exec", "box", "--", "touch", "end").code == 0
            assert (logs.stdout.read(), logs.wait(PATIENCE_S)) == (b"end\n", 0)


def test_kill_ends_what_runs_and_says_how(cloche: Shell) -> None:
    cloche("create", "--id", "busy")
    with cloche.begun("exec", "busy", "--", "sh", "-c", "echo up; sleep 600") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        said = cloche("kill", "busy", "-s", "KILL")
        assert said.out.split()[1:] == [b"cancelled"]
        assert process.wait(PATIENCE_S) == 137
    exec_id = said.out.split()[0].decode()
    again = cloche("kill", "busy", exec_id)
    assert (again.code, again.err.decode()) == (2, f"cloche: command '{exec_id}' is not running in sandbox 'busy'\n")


def test_verify_is_green(cloche: Shell) -> None:
    assert cloche("verify").out.startswith(b"complete: ")
    (summary,) = lines(cloche("verify", "box", "--json"))
    assert summary["findings"] == []
    assert summary["commands"] == summary["ended"] > 0


def test_doctor_says_what_is_there_and_how_to_connect(cloche: Shell) -> None:
    findings = {each["what"]: each for each in lines(cloche("doctor", "--json"))}
    assert all(each["ok"] for each in findings.values())
    assert "client.json" in findings["node"]["said"]
    assert b"FAIL" not in cloche("doctor").out


def test_the_checked_in_schema_is_current(cloche: Shell) -> None:
    done = subprocess.run(cloche.argv("schema", "--check"), cwd=ROOT, env=cloche.env, check=False)
    assert done.returncode == 0


def test_a_stale_schema_is_told(cloche: Shell) -> None:
    said = cloche("schema", "--check", "--directory", str(cloche.data / "nothing"))
    assert (said.code, said.err.count(b"\n")) == (1, 1)
    assert b"not current" in said.err


MISTAKES = [
    (["exec", "nobody", "--", "true"], "there is no sandbox 'nobody'"),
    (["logs", "nobody"], "there is no sandbox 'nobody'"),
    (["events", "nobody"], "there is no sandbox 'nobody'"),
    (["verify", "nobody"], "there is no sandbox 'nobody'"),
    (["stop", "nobody"], "there is no sandbox 'nobody'"),
    (["exec", "a b", "--", "true"], "'a b' is not a sandbox id"),
    (["create", "--id", "a.b"], "'a.b' is not a sandbox id"),
    (["create", "--id", "box"], "sandbox 'box' exists already"),
    (["create", "--set", "memory"], "--set 'memory' is not PATH=VALUE"),
    (["create", "--set", "memory=1"], "unknown field `memory`"),
    (["create", "--set", "resources.memory_mb=1"], "`$.resources.memory_mb`"),
    (["create", "--set", "resources.memory_mb=lots"], "`$.resources.memory_mb`"),
    (["create", "--isolation", "vm"], "one of docker, devcontainer, local"),
    (["create", "--isolation", "docker"], "lacks docker sandboxes"),
    (["run", "--isolation", "vm", "--", "true"], "one of docker, devcontainer, local"),
    (["run", "--timeout", "soon", "--", "true"], "'soon' is not a duration: try 500ms, 30s, 5m or 1h"),
    (["run", "--env", "A", "--", "true"], "--env 'A' is not NAME=VALUE"),
    (["run", "--env", "A-B=1", "--", "true"], "--env 'A-B=1' is not NAME=VALUE"),
    (["exec", "box", "--cwd", "src", "--", "true"], "--cwd 'src' does not start with '/'"),
    (["exec", "box", "--cwd", "/nowhere", "--", "true"], "/nowhere: No such file or directory"),
    (["exec", "box", "--env", "JWT_SECRET=x", "--", "true"], "blocked in the environment: JWT_SECRET"),
    (["exec", "box", "--", "no-such-program"], "no-such-program: No such file or directory"),
    (["kill", "box"], "no command is running in sandbox 'box'"),
    (["kill", "box", "nobody"], "command 'nobody' is not running"),
    (["kill", "box", "-s", "LOUD"], "'LOUD' is not a signal"),
    (["logs", "box", "nobody"], "sandbox 'box' has no command 'nobody'"),
    (["logs", "box", "nobody", "-f"], "sandbox 'box' has no command 'nobody'"),
    (["events", "box", "--type", "a b"], "event family 'a b' is not a name"),
    (["exec", "box", "--", "echo", "\udcff"], "text that is not UTF-8 cannot be sent"),
    (["exec", "box", "-e", "A=\udcff", "--", "true"], "text that is not UTF-8 cannot be sent"),
    (["exec", "box", "--", ""], "No such file or directory"),
    (["start", "gone"], "sandbox 'gone' is removed"),
    (["up"], "end it with `cloche down`"),
]


@pytest.fixture(scope="module")
def gone(cloche: Shell) -> None:
    cloche("create", "--id", "gone")
    assert cloche("rm", "gone").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"), MISTAKES, ids=[ascii(" ".join(arguments)) for arguments, _ in MISTAKES]
)
@pytest.mark.usefixtures("gone")
def test_a_mistake_is_one_clear_line_and_a_code(cloche: Shell, arguments: list[str], words: str) -> None:
    said = cloche(*arguments)
    assert said.code not in (0, 130, 137)
    assert (said.out, said.err.count(b"\n")) == (b"", 1), said.err
    assert said.err.startswith(b"cloche: ")
    assert words in said.err.decode()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "Missing argument '-- CMD…'"),
        (["exec", "box"], "Missing argument '-- CMD…'"),
        (["exec", "box", "--"], "Missing argument '-- CMD…'"),
        (["run", "--tiemout", "5s", "--", "true"], "No such option"),
        (["exec", "--bogus", "box", "--", "true"], "No such option"),
        (["events", "box", "--from", "0"], "'--from'"),
        (["frobnicate"], "No such command 'frobnicate'"),
    ],
)
def test_a_wrong_word_is_named_with_the_usage(cloche: Shell, arguments: list[str], words: str) -> None:
    said = cloche(*arguments)
    assert (said.code, said.out) == (2, b"")
    assert words in said.err.decode().splitlines()[-1]
    assert b"Traceback" not in said.err
