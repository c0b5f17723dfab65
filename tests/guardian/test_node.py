"""On a whole node: a real command in a real sandbox, and a step that really ends it; and the same from the shell."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.spec import Isolation, SandboxSpec
from contracts.state import Status
from tests.cli.shell import Said, Shell, up_in
from tests.guardian.rig import configure
from tests.services.node import Service, node_in

HARMLESS_DANGER = "true || rm -rf /"


async def test_a_dangerous_command_stops_its_sandbox_when_the_settings_say_so(tmp_path: Path) -> None:
    configure(tmp_path, {"dangerous_command": {"step": "stop"}})
    async with node_in(tmp_path) as (_, cloche):
        guardian = Service("guardian", tmp_path, {})
        try:
            await guardian.start()
            sandbox = await cloche.create(SandboxSpec(isolation=Isolation.LOCAL))
            quiet = await cloche.create(SandboxSpec(isolation=Isolation.LOCAL))
            await sandbox.run(["/bin/sh", "-c", HARMLESS_DANGER])
            stopped: dict[str, Any] = {}
            async for event in sandbox.events(types=["sandbox.stopped", "guardian"], follow=True):
                stopped[event.head.type] = json.loads(bytes(event.head.data))
                if len(stopped) == 2:
                    break
            assert stopped["sandbox.stopped"]["reason"].startswith("guardian: dangerous_command: removes the root")
            assert stopped["guardian.intervention"]["step"] == "stop"
            assert (await cloche.sandbox(quiet.id)).state.status is Status.RUNNING
        finally:
            await guardian.kill()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with up_in(tmp_path_factory.mktemp("node"), DOCKER_HOST="unix:///nobody/listens.sock") as shell:
        for name in ("one", "two"):
            assert shell("create", "--id", name).code == 0
            assert shell("exec", name, "--", "/bin/sh", "-c", HARMLESS_DANGER).code == 0
        yield shell


def lines(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def test_the_guardian_of_a_node_that_is_up_watches(shell: Shell) -> None:
    events = lines(shell("events", "one", "--json", "--type", "guardian"))
    assert [each["event"]["data"]["rule"] for each in events] == ["dangerous_command"]


def test_history_tells_every_sandbox_or_one(shell: Shell) -> None:
    found = lines(shell("guardian", "test", "--json"))
    assert [each["sandbox"] for each in found] == ["one", "two"]
    (one,) = lines(shell("guardian", "test", "dangerous_command", "--sandbox", "one", "--json"))
    assert one == found[0]
    (event,) = lines(shell("events", "one", "--json", "--type", "command.started"))
    assert one["finding"]["evidence"] == [event["sequence"]]
    assert lines(shell("guardian", "test", "budget", "--json")) == []


def test_history_is_told_between_sequences_or_times(shell: Shell) -> None:
    first, second = lines(shell("guardian", "test", "--json"))
    sequence = str(second["finding"]["evidence"][0])
    assert lines(shell("guardian", "test", "--json", "--from", sequence)) == [second]
    assert lines(shell("guardian", "test", "--json", "--to", str(int(sequence) - 1))) == [first]
    assert lines(shell("guardian", "test", "--json", "--from", second["at"])) == [second]
    assert lines(shell("guardian", "test", "--json", "--to", second["at"])) == [first]


def test_history_is_told_under_other_settings(shell: Shell) -> None:
    set_ = ["--set", "dangerous_command.step=pause"]
    assert [each["step"] for each in lines(shell("guardian", "test", "--json", *set_))] == ["pause", "pause"]


def test_a_person_reads_lines(shell: Shell) -> None:
    said = shell("guardian", "test", "--sandbox", "one")
    assert b"one  dangerous_command: removes the root or a home: true || rm -rf /" in said.out
    assert b"1 finding (1 dangerous_command) in " in said.err
    told = shell("guardian", "test", "--sandbox", "one", "--set", "dangerous_command.step=guidance").out.decode()
    assert "dangerous_command → guidance (no run is open): removes the root" in told
    assert b"nothing found in " in shell("guardian", "test", "budget").err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["test", "greed"], b"there is no rule 'greed'"),
        (["test", "--from", "yesterday"], b"--from 'yesterday' is neither a sequence nor a time"),
        (["test", "--to", "\u00b2"], b"is neither a sequence nor a time"),
        (["test", "--from", "0001-01-01"], b"is neither a sequence nor a time"),
        (["test", "--set", "budget.step=shout"], b"--set: Invalid enum value 'shout' - at `$.budget.step`"),
        (["test", "--set", "greed.x=1"], b"--set: Object contains unknown field `greed`"),
        (["test", "--sandbox", "nobody"], b"there is no sandbox 'nobody'"),
        (["rules", "--set", 'dangerous_command.also={"x":"("}'], b""),
    ],
)
def test_a_mistake_is_told_in_a_line(shell: Shell, arguments: list[str], says: bytes) -> None:
    said = shell("guardian", *arguments)
    assert said.code == (2 if says else 0)
    assert says in said.err
    assert said.err.count(b"\n") <= 1


def test_rules_are_told_with_what_they_do_and_their_settings(shell: Shell) -> None:
    told = {each["rule"]: each for each in lines(shell("guardian", "rules", "--json"))}
    assert told["repeated_call"]["settings"]["times"] == 5
    assert all(each["about"] for each in told.values())
    assert b"no_progress: a run's turn is open" in shell("guardian", "rules").out
