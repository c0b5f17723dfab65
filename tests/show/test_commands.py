"""`show`, `compare` and `fork`, as somebody at a shell uses them: one node for the whole file."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.events.agent import AgentApprovalRequested
from infra.bus import reader
from infra.client import Cloche
from tests.agents.conformance.scenes import until
from tests.agents.scripted.playing import begin
from tests.cli.shell import Said, Shell, up_in
from tests.cli.terminal import at_a_terminal
from tests.services.node import settings_in

SCRIPT = {
    "turns": [
        [
            {"say": "I look around."},
            {"run": "echo agent >> notes; seq 1 40"},
            {"ask": "May I?", "tool": "deploy", "steps": [{"run": "echo deployed"}]},
            {"say": "All is done."},
        ],
        [{"say": "Again: ${message}"}],
    ]
}
HOSTILE = r"printf '\033]0;title\007\033[2J\033[31mred\033[0m\nbad\033[1A\n'; printf 'x\n%.0s' $(seq 1 50); exit 3"
SGR = re.compile(r"\x1b\[[0-9;]*m")


class Box:
    """`box-origin` has run three commands and an agent."""

    def __init__(self, shell: Shell, place: Path) -> None:
        self.shell = shell
        self.place = place
        self.changed, self.run, self.end = asyncio.run(self._make())

    async def _make(self) -> tuple[int, str, int]:
        """The sequences before and after the agent's run, and its id."""
        async with Cloche.connect(settings_in(self.shell.data)) as cloche:
            sandbox = await cloche.create({"task_id": "task"}, id="box-origin")
            for line in ("printf 'one\\ntwo\\n' > notes", HOSTILE, "sed -i s/two/2/ notes"):
                await sandbox.run(line)
                changed = (await sandbox.snapshot()).sequence
            run = await begin(sandbox, SCRIPT, prompt="Go")
            asked = await until(run, AgentApprovalRequested)
            await sandbox.agent.approve(asked.approval, reason="fine")
            await run.wait()
            await sandbox.snapshot()
            return changed, run.id, (await reader.bounds(cloche.bus)).last

    def ran(self, *sandboxes: str, lines: tuple[str, ...]) -> None:
        async def go() -> None:
            async with Cloche.connect(settings_in(self.shell.data)) as cloche:
                for name in sandboxes:
                    sandbox = await cloche.create(id=name)
                    for line in lines:
                        await sandbox.run(line)

        asyncio.run(go())

    def done(self, *arguments: str) -> bytes:
        said = self.shell(*arguments)
        assert said.code == 0, said
        return said.out

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.done("show", *arguments, "--json").splitlines()]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    place = tmp_path_factory.mktemp("show")
    with up_in(place / "data", DOCKER_HOST="unix:///nobody/listens.sock", TZ="UTC") as shell:
        yield Box(shell, place)


def in_order(text: str, *wanted: str) -> None:
    at = 0
    for words in wanted:
        found = text.find(words, at)
        assert found >= 0, f"{words!r} is not in {text[at:]}"
        at = found


def test_a_session_is_told_as_a_story(box: Box) -> None:
    told = box.done("show", "box-origin").decode()
    assert "\x1b" not in told
    in_order(
        told,
        "box-origin  running  local on node",
        "(1 failed)",
        "1 run of script",
        "1 approval asked for",
        "made on node",
        "$ printf 'one\\ntwo\\n' > notes  exit 0",
        "+ /workspace/notes",
        "exit 3",
        "│ red",
        "… 44 more lines",
        "│ x",
        "~ /workspace/notes  +1 −1",
        "-two",
        "+2",
        "an agent begins: script",
        "> Go",
        "│ I look around.",
        "→ run  echo agent",
        "← done",
        "│ 1\n",
        "… 32 more lines",
        "? asks for leave: deploy",
        "✓ approved by user",
        "(fine)",
        "│ All is done.",
        "the agent is over: done",
    )


def test_each_item_is_an_object_for_programs_and_a_part_can_be_asked_for(box: Box) -> None:
    summary, *items = box.items("box-origin")
    assert (summary["kind"], summary["status"], summary["commands"]) == ("summary", "running", 5)
    assert (summary["failed_commands"], summary["approvals"], summary["runs"]) == (1, 1, 1)
    assert summary["files_changed"] == 1
    sequences = [item["sequence"] for item in items]
    assert sequences == sorted(sequences)
    assert {"sandbox", "command", "files", "said", "tool_use", "tool_result", "asked", "answered", "run"} == {
        item["kind"] for item in items
    }
    _, *late = box.items("box-origin", "--from", str(box.changed), "--to", str(box.end))
    assert {item["kind"] for item in late}.isdisjoint({"command"})
    assert [item for item in items if item["sequence"] >= box.changed] == late
    _, *commands = box.items("box-origin", "--type", "command")
    assert [item["code"] for item in commands] == [0, 3, 0, 0, 0]
    past, *_ = box.items("box-origin", "--to", str(box.changed))
    assert (past["runs"], past["commands"]) == (0, 3)


def test_a_time_before_everything_is_the_beginning(box: Box) -> None:
    _, *whole = box.items("box-origin", "--to", str(box.end))
    _, *since = box.items("box-origin", "--from", "1999-12-31T00:00:00Z", "--to", str(box.end))
    assert since == whole


def test_full_shows_every_line(box: Box) -> None:
    told = box.done("show", "box-origin", "--full").decode()
    assert told.count("│ x\n") == 50
    assert "more lines" not in told
    assert "\x1b" not in told


def test_at_a_terminal_it_is_paged_and_nothing_from_inside_moves_the_cursor(box: Box) -> None:
    box.shell.env |= {"TERM": "xterm", "PAGER": "less"}
    with at_a_terminal(box.shell, "show", "box-origin") as person:
        person.sees(b"made on node")
        person.types(b"q")
        assert person.leaves() == 0
    box.shell.env["PAGER"] = "tee /dev/null"
    with at_a_terminal(box.shell, "show", "box-origin") as person:
        assert person.leaves() == 0
        shown = person.shown.decode()
    assert "\x1b" not in SGR.sub("", shown)
    assert "\x1b[1" in shown
    assert "the agent is over" in shown
    for pager in ("head -n 1", "no-such-pager", "true"):
        box.shell.env["PAGER"] = pager
        with at_a_terminal(box.shell, "show", "box-origin", "--full") as person:
            assert person.leaves() == 0


def test_the_same_work_in_two_sandboxes_is_the_same(box: Box) -> None:
    box.ran("first-box", "second-box", lines=("echo one > a", "cat a; pwd; hostname >/dev/null"))
    same = box.shell("compare", "first-box", "second-box")
    assert (same.code, same.err) == (0, b"")
    in_order(same.out.decode(), "All 2 steps are the same.", "files: all 1 are the same")
    box.done("exec", "first-box", "--", "sh", "-c", "echo two > b; echo more")
    box.done("exec", "second-box", "--", "sh", "-c", "echo 2 > b; echo more")
    other = box.shell("compare", "first-box", "second-box", "--diff")
    assert other.code == 1
    in_order(
        other.out.decode(),
        "The last step that is the same:",
        "cat a; pwd",
        "Then they part: they do different things.",
        "A  [",
        "$ echo two > b",
        "B  [",
        "$ echo 2 > b",
        "commands:",
        "only in A: 1",
        "only in B: 1",
        "different: 1",
        "    b",
        "-two",
        "+2",
    )
    told = json.loads(box.shell("compare", "first-box", "second-box", "--json").out)
    assert told["steps"]["divergence"]["a"]["what"] == "echo two > b; echo more"
    assert told["files"]["differing"] == ["b"]
    assert told["spent"]["a"]["commands"] == 3


def test_another_specification_alone_is_a_difference(box: Box) -> None:
    for name, task in (("third-box", "one"), ("fourth-box", "two"), ("fifth-box", "two")):
        box.done("create", "--id", name, "--set", f"task_id={task}")
        box.done("exec", name, "--", "true")
    other = box.shell("compare", "third-box", "fourth-box")
    in_order(other.out.decode(), "All 1 steps are the same.", "files: all 0 are the same", "specification:", "task_id")
    assert other.code == 1
    assert box.shell("compare", "fourth-box", "fifth-box").code == 0


def test_a_fork_goes_on_and_is_compared_with_its_origin_from_where_they_part(box: Box) -> None:
    made = box.shell("fork", "box-origin", "--at", str(box.end), "--id", "box-fork", "--set", "task_id=other")
    assert (made.code, made.out) == (0, b"box-fork\n")
    words = made.err.decode()
    in_order(words, f"a fork of box-origin at sequence {box.end}", "--resume " + box.run)
    start = words.split("cloche agent start ")[1].split(" --prompt")[0].split()
    run = box.done("agent", "start", *start, "--prompt", "once more", "-f").decode()
    assert "Again: once more" in run
    told = json.loads(box.shell("compare", "box-origin", "box-fork", "--json").out)
    assert told["common"] == {"sandbox": "box-origin", "sequence": box.end}
    assert [step["what"] for step in told["steps"]["only_b"]][1] == "Again: once more"
    assert [each["path"] for each in told["specification"]] == ["task_id"]

    at = str(told["b"]["last_sequence"])
    asked = json.loads(box.done("fork", "box-fork", "--at", at, "--prompt", "now", "--json"))
    assert asked["origin"] == "box-fork"
    assert asked["resumable"] != box.run
    assert asked["run"]


def test_what_was_imported_is_shown_compared_and_forked(box: Box) -> None:
    file = box.place / "session.jsonl"
    box.done("export", "box-origin", "-o", str(file))
    file.write_text(file.read_text().replace("box-origin", "box-abroad"))
    box.done("import", str(file))
    told = box.done("show", "box-abroad").decode()
    in_order(told, "box-abroad  running", "imported", "│ All is done.")
    assert told.count("imported") == 1
    same = box.shell("compare", "box-origin", "box-abroad")
    assert same.code == 0, same.out.decode()
    refused = box.shell("fork", "box-abroad", "--at", str(box.end), "--id", "box-abroad")
    assert refused.code == 2
    assert b"an id of its own" in refused.err
    made = json.loads(
        box.done("fork", "box-abroad", "--at", str(box.end), "--id", "box-home", "--prompt", "home", "--json")
    )
    assert made["resumable"] == box.run
    assert box.done("exec", "box-home", "--", "cat", "notes") == b"one\n2\nagent\n"
    assert "Again: home" in box.done("agent", "follow", "box-home").decode()
    assert "box-abroad  running" in box.done("show", "box-abroad").decode()
    assert b"see `cloche show box-abroad`" in box.shell("why", "box-abroad").err
    assert b"`cloche show box-abroad --type network`" in box.shell("net", "box-abroad").err


def test_mistakes_are_told_in_one_line(box: Box) -> None:
    def said(*arguments: str) -> Said:
        return box.shell(*arguments)

    for arguments, words in (
        (("show", "no-such"), b"there is no sandbox"),
        (("show", "no such"), b"is not a sandbox id"),
        (("show", "box-origin", "--from", "soon"), b"neither a sequence"),
        (("show", "box-origin", "--from", "999999"), b"the log ends at sequence"),
        (("show", "box-origin", "--from", str(box.end), "--to", str(box.changed)), b"--from comes after --to"),
        (("show", "box-origin", "--type", "nonsense"), b"there are sandbox, health, command"),
        (("replay", "box-origin", "--from", "999999", "--speed", "max"), b"the log ends at sequence"),
        (("compare", "box-origin", "no-such"), b"there is no sandbox"),
        (("compare", "box-origin", "*"), b"is not a sandbox id"),
        (("compare", "box-origin", "box-origin"), b"name two"),
        (("fork", "*", "--at", "9"), b"is not a sandbox id"),
        (("fork", "box-origin", "--at", "1"), b"there was no sandbox"),
        (("fork", "no-such", "--at", "9"), b"`cloche ps --all` has all sandboxes"),
        (("state", "no-such"), b"'no-such', only orders for it that nobody could obey: see `cloche ps --all`"),
        (("fork", "box-origin", "--at", str(box.changed), "--prompt", "x"), b"leave --prompt out"),
        (("fork", "box-origin", "--at", "2001-01-01"), b"the log begins later"),
    ):
        found = said(*arguments)
        assert found.code == 2, found
        assert found.err.count(b"\n") == 1
        assert words in found.err
