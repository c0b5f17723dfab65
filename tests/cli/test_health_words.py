"""`ps`, `top` and `why`: how sandboxes are, and how they came to be so, on a real node."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.spec import Isolation
from infra.sandbox.providers import load_providers
from tests.cli.shell import PATIENCE_S, Said, Shell, up_in
from tests.cli.terminal import at_a_terminal

NEVER = ["--set", "restart.policy=never"]


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    data = tmp_path_factory.mktemp("node")
    (data / "cloche.toml").write_text("[intervals]\nhealth_s = 0.2\n")
    with up_in(data, DOCKER_HOST="unix:///nobody/listens.sock", TERM="xterm") as shell:
        yield shell


def made(cloche: Shell, name: str, *more: str) -> str:
    said = cloche("create", "--id", name, *more)
    assert said.code == 0, said.err
    return name


def lines(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def why(cloche: Shell, name: str) -> dict[str, Any]:
    (story,) = lines(cloche("why", name, "--json"))
    return story


def wait_for(cloche: Shell, name: str, tag: str) -> None:
    with cloche.begun("events", name, "--json", "-f", "--type", tag) as events:
        assert events.stdout is not None
        assert json.loads(events.stdout.readline())["event"]["type"] == tag


def kill_first_process(cloche: Shell, name: str) -> None:
    async def kill() -> None:
        async with load_providers(cloche.data) as providers:
            seen = await providers[Isolation.LOCAL].inspect(name)
        assert seen is not None
        assert seen.pid is not None
        os.kill(seen.pid, signal.SIGKILL)

    asyncio.run(kill())


def said_by(cloche: Shell, story: dict[str, Any]) -> None:
    """Every sentence stands on events that are in the log, of this sandbox."""
    events = {each["sequence"]: each["event"] for each in lines(cloche("events", story["sandbox"], "--json"))}
    for sentence in [story["headline"], *story["sentences"]]:
        assert sentence["sequences"]
        assert set(sentence["sequences"]) <= set(events)
        commands = {events[sequence]["correlationid"] for sequence in sentence["sequences"]}
        assert sentence["asked_by"] is None or sentence["asked_by"] in commands


def test_ps_tells_health_and_use_once_somebody_has_looked(cloche: Shell) -> None:
    name = made(cloche, "seen")
    wait_for(cloche, name, "health.healthy")
    deadline = time.monotonic() + PATIENCE_S
    while (state := next(each for each in lines(cloche("ps", "--json")) if each["sandbox"] == name))["use"] is None:
        assert time.monotonic() < deadline
    use = state["use"]
    assert (state["health"], use["fresh"], use["memory_limit_bytes"]) == ("healthy", True, 4096 * 1024**2)
    assert use["processes"] >= 1
    assert use["memory_bytes"] > 0
    header, *rows = cloche("ps").out.decode().splitlines()
    assert header.split()[:5] == ["SANDBOX", "STATUS", "HEALTH", "CPU", "MEMORY"]
    (row,) = [row.split() for row in rows if row.startswith(name)]
    assert row[:3] == [name, "running", "healthy"]
    assert row[3].endswith("%")
    assert row[4].endswith("/4.0G")


def test_one_whose_first_process_was_killed_says_so_with_its_last_words(cloche: Shell) -> None:
    name = made(cloche, "killed", *NEVER)
    assert cloche("exec", name, "--", "printf", r"last\033[2J words\n").code == 0
    kill_first_process(cloche, name)
    wait_for(cloche, name, "sandbox.stopped")
    story = why(cloche, name)
    assert story["headline"]["text"] == (
        "is stopped: its first process was killed by SIGKILL (signal 9), and was not recovered, because its restart "
        "policy is `never`"
    )
    said_by(cloche, story)
    text = cloche("why", name).out.decode()
    assert "| last\\x1b[2J words\n" in text
    assert f"  cloche start {name}\n" in text
    assert "\x1b" not in text
    (row,) = [row.split() for row in cloche("ps").out.decode().splitlines() if row.startswith(name)]
    assert row[1:4] == ["stopped", "died", "—"]
    assert cloche("start", name).code == 0
    assert why(cloche, name)["headline"]["text"].startswith("is running")


def test_one_that_was_recovered_says_from_what(cloche: Shell) -> None:
    name = made(cloche, "back")
    kill_first_process(cloche, name)
    wait_for(cloche, name, "sandbox.recovered")
    story = why(cloche, name)
    assert "it was recovered (attempt 1 of 3), after its first process was killed" in story["headline"]["text"]
    assert [each["text"].split(":")[0].split(" on ")[0] for each in story["sentences"]][:3] == [
        "was made and started",
        "died",
        "was recovered",
    ]
    said_by(cloche, story)


def test_one_that_died_too_often_has_failed_until_a_person_recovers_it(cloche: Shell) -> None:
    name = made(cloche, "often", "--set", "restart.max_attempts=1")
    kill_first_process(cloche, name)
    wait_for(cloche, name, "sandbox.recovered")
    kill_first_process(cloche, name)
    wait_for(cloche, name, "sandbox.failed")
    story = why(cloche, name)
    assert story["headline"]["text"].startswith("has failed: it died again after 1 attempts to recover it")
    said_by(cloche, story)
    assert f"cloche recover {name}" in [each["do"] for each in story["next"]]
    assert cloche("recover", name).code == 0
    assert why(cloche, name)["headline"]["text"].endswith("it was recovered (as somebody asked)")


def test_one_that_filled_its_disk_says_how_full_and_what_to_do(cloche: Shell) -> None:
    name = made(cloche, "full", "--set", "resources.disk_mb=1024")
    cloche("exec", name, "--", "sh", "-c", "fallocate -l 600M one; fallocate -l 600M two")
    wait_for(cloche, name, "sandbox.stopped")
    story = why(cloche, name)
    assert story["headline"]["text"] == "is stopped: its workspace held 1.2 GiB, and may hold 1 GiB"
    assert [each["do"] for each in story["next"]][:2] == [f"cloche files rm {name} PATH", f"cloche start {name}"]
    assert "resources.disk_mb=2048" in story["next"][-1]["do"]
    said_by(cloche, story)
    assert cloche("rm", name).code == 0


def test_one_that_a_person_stopped_and_removed_names_the_commands(cloche: Shell) -> None:
    name = made(cloche, "told")
    assert cloche("stop", name).code == 0
    stopped = why(cloche, name)
    command = stopped["headline"]["asked_by"]
    assert stopped["headline"]["text"] == f"is stopped, as command {command} asked"
    assert [each["do"] for each in stopped["next"]] == [f"cloche start {name}"]
    assert cloche("rm", name).code == 0
    assert cloche("start", name).code == 2
    removed = why(cloche, name)
    assert removed["headline"]["text"].startswith("is removed, as command ")
    assert removed["sentences"][-1]["text"].startswith("had an order that was given up: sandbox.start: ")
    said_by(cloche, removed)


def test_what_is_advised_about_a_removed_one_works(cloche: Shell) -> None:
    name = made(cloche, "forked")
    assert cloche("files", "write", name, "kept.txt", "kept").code == 0
    assert cloche("rm", name).code == 0
    *_, tree, fork = [each["do"] for each in why(cloche, name)["next"]]
    assert b"kept.txt" in cloche(*tree.split()[1:]).out
    said = cloche(*fork.split()[1:])
    assert said.code == 0, said.err
    assert cloche("files", "cat", said.out.decode().strip(), "kept.txt").out == b"kept"


def test_one_that_could_not_be_made_says_what_was_in_the_way(cloche: Shell, tmp_path: Path) -> None:
    source = json.dumps({"kind": "directory", "path": str(tmp_path / "nothing")})
    assert cloche("create", "--id", "unmade", "--set", f"workspace.source={source}").code != 0
    story = why(cloche, "unmade")
    assert story["status"] == "failed"
    assert story["headline"]["text"].startswith("could not be made: ")
    said_by(cloche, story)


def test_one_that_was_refused_was_never_made(cloche: Shell) -> None:
    assert cloche("create", "--id", "refused", "--set", "resources.memory_mb=1").code == 2
    assert why(cloche, "refused")["headline"]["text"].startswith("was never made: ")
    assert b"cloche events" not in cloche("why", "refused").out


@pytest.mark.parametrize(("name", "words"), [("nobody", b"there is no sandbox"), ("a b", b"is not a sandbox id")])
def test_why_of_nobody_is_one_clear_line(cloche: Shell, name: str, words: bytes) -> None:
    said = cloche("why", name)
    assert (said.code, said.out, said.err.count(b"\n")) == (2, b"", 1)
    assert words in said.err


def test_top_prints_one_table_where_nobody_looks(cloche: Shell) -> None:
    name = made(cloche, "listed")
    summary, header, *rows = cloche("top").out.decode().splitlines()
    assert " running" in summary
    assert header.split()[:3] == ["SANDBOX", "STATUS", "HEALTH"]
    assert any(row.startswith(name) for row in rows)
    (told,) = lines(cloche("top", "--once", "--json", "--sort", "memory"))
    assert name in [each["sandbox"] for each in told["sandboxes"]]
    assert told["counts"]["running"] >= 1


def test_top_repeats_itself_as_json_until_the_reader_goes(cloche: Shell) -> None:
    name = made(cloche, "repeated")
    with cloche.begun("top", "--json", "--every", "100ms") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert name in [each["sandbox"] for each in told["sandboxes"]]
        assert cloche("rm", name).code == 0
        while name in [each["sandbox"] for each in told["sandboxes"]]:
            told = json.loads(process.stdout.readline())
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 1
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def kill_nats(cloche: Shell) -> None:
    mark = f"{cloche.data}/".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"nats-server") and any(mark in word for word in words):
            os.kill(int(process.name), signal.SIGKILL)
            return
    raise AssertionError("no NATS server")


def test_top_follows_what_happens_takes_keys_and_leaves_the_terminal_as_it_was(cloche: Shell) -> None:
    made(cloche, "first-row")
    with at_a_terminal(cloche, "top", "--every", "100ms") as person:
        person.sees(b"by cpu")
        person.sees(b"first-row")
        person.types(b"m")
        person.sees(b"by memory")
        person.types(b"x")
        person.types(b"c")
        person.sees(b"by cpu")
        made(cloche, "second-row")
        person.sees(b"second-row")
        kill_nats(cloche)
        made(cloche, "third-row")
        person.sees(b"third-row")
        person.types(b"q")
        assert person.leaves() == 0
    assert b"\x1b[?1049l" in person.shown


def test_ctrl_c_leaves_top(cloche: Shell) -> None:
    with at_a_terminal(cloche, "top") as person:
        person.sees(b"by cpu")
        person.process.send_signal(signal.SIGINT)
        assert person.leaves() == 0
    assert b"Traceback" not in person.shown
