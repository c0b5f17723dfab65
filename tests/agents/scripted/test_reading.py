"""A script is read strictly: what is wrong is named by its place."""

import json
import re
from pathlib import Path

import pytest

from contracts.commands.agent import StartAgent
from contracts.errors import Invalid
from services.agent.runtimes.script.reading import MAX_TEXT, read
from services.agent.runtimes.script.runtime import ScriptRuntime
from services.agent.runtimes.script.script import Ask, Edit, For, Repeat, Run, Say, Script, Spend, Spent, Wait
from services.agent.runtimes.script.words import Known, fill, fill_command

WHOLE = """
on_message:
  - say: "I hear ${message}"
turns:
  - - say: [Hel, lo]
    - run: make
      timeout_ms: 1000
      expect: 0
    - run: [ls, -l]
    - edit: a.txt
      old: one
      new: two
  - - ask: May I?
      tool: deploy
      input: {target: live}
      steps: [{say: "yes"}]
      denied: [{say: a pity}]
    - wait: {message: true, timeout_ms: 5}
    - repeat: 3
      steps:
        - spend: {cost_usd: 0.5}
otherwise: []
"""


def test_every_part_of_a_script_is_read() -> None:
    assert read(WHOLE) == Script(
        on_message=(Say(say="I hear ${message}"),),
        turns=(
            (
                Say(say=("Hel", "lo")),
                Run(run="make", timeout_ms=1000, expect=0),
                Run(run=("ls", "-l")),
                Edit(edit="a.txt", old="one", new="two"),
            ),
            (
                Ask(
                    ask="May I?",
                    tool="deploy",
                    input={"target": "live"},
                    steps=(Say(say="yes"),),
                    denied=(Say(say="a pity"),),
                ),
                Wait(wait=For(message=True, timeout_ms=5)),
                Repeat(repeat=3, steps=(Spend(spend=Spent(cost_usd=0.5)),)),
            ),
        ),
    )


def test_the_examples_of_the_documentation_are_scripts() -> None:
    docs = Path(__file__).resolve().parents[3] / "docs" / "agents"
    assert len(read((docs / "hello.yaml").read_text()).turns) == 1
    (example,) = re.findall(r"```yaml\n(.*?)```", (docs / "script.md").read_text(), re.DOTALL)
    assert len(read(example).turns) == 2


def test_json_is_as_good_as_yaml_and_a_bare_list_is_one_turn() -> None:
    steps = [{"say": "hello"}, {"wait": {"ms": 5}}]
    assert read(json.dumps(steps)) == read(json.dumps({"steps": steps})) == read(json.dumps({"turns": [steps]}))
    assert read("[{say: hello}, {wait: {ms: 5}}]") == read(json.dumps(steps))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expected `object`, got `null`"),
        ("steps: [}", "neither YAML nor JSON"),
        ("[" * 50_000, "neither YAML nor JSON"),
        ("say: hello", "unknown field `say`"),
        ("{}", "exactly one of `steps` (a single turn) and `turns`"),
        ("- hello", r"steps[0]: a step is a verb"),
        ("- say: a\n- shout: b", "steps[1]: one of say, think, run"),
        ("- say: a\n  think: b", "steps[0]: one of say, think, run, write, edit, read, ask"),
        ("- say: 5", "steps[0] (say): Expected `str | array`, got `int` - at `$.say`"),
        ("- run: ls\n  expect: '0'", "steps[0] (run): Expected `int | null`, got `str` - at `$.expect`"),
        ("- run: ls\n  timeout: 5", "steps[0] (run): Object contains unknown field `timeout`"),
        ("- write: a", "steps[0] (write): Object missing required field `content`"),
        ('- run: "a\\0b"', "steps[0] (run): Expected `str` matching regex"),
        ('- say: "\\ud800"', "Unicode"),
        ("- wait: {}", "steps[0] (wait): wait for one of `ms`, `file` and `message: true`"),
        ("- ask: why\n  denied: [{say: no}]", "steps[0] (ask): `input`, `steps` and `denied` are for a question"),
        ("turns: [[{repeat: 2, steps: [{say: a}, {walk: b}]}]]", "turns[0][0].steps[1]: one of"),
        ("- subagent: x\n  steps: 5", "steps[0] (subagent): Expected `array`, got `int` - at `$.steps`"),
        ("- repeat: 10001\n  steps: []", "steps[0] (repeat): Expected `int` <= 10000"),
        ("- repeat: 10000\n  steps: [{repeat: 100, steps: [{say: a}]}]", "more than 100000 steps with all that is"),
        ("- &a {repeat: 2, steps: [*a]}", "8 deep at most"),
        ("x" * (MAX_TEXT + 1), f"{MAX_TEXT} at most"),
        ("- say: 2024-99-99", "script: "),
    ],
)
def test_what_is_wrong_is_named_by_its_place(text: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(text)
    assert words in refused.value.message


def test_an_anchor_that_repeats_itself_without_end_is_refused_at_once() -> None:
    levels = "".join(f"  - &a{n} {{repeat: 1, steps: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 8))
    with pytest.raises(Invalid, match="more than 10000 steps"):
        read(f"steps:\n  - &a0 {{say: a}}\n{levels}")


def test_an_order_without_a_script_is_refused_unless_it_goes_on_from_a_run() -> None:
    runtime = ScriptRuntime()
    with pytest.raises(Invalid, match="`script` is missing"):
        runtime.check(StartAgent(runtime="script", prompt="x"))
    with pytest.raises(Invalid, match="unknown field `skript`"):
        runtime.check(StartAgent(runtime="script", prompt="x", options={"skript": "- say: a"}))
    with pytest.raises(Invalid, match=r"steps\[0\] \(say\)"):
        runtime.check(StartAgent(runtime="script", prompt="x", options={"script": "- say: 1"}))
    runtime.check(StartAgent(runtime="script", prompt="x", resume="r-1"))


def test_names_stand_for_what_is_known_and_a_shell_sees_one_word() -> None:
    known = Known(message="it's; rm -rf $HOME", prompt="p", turn=2, round=3)
    assert fill("${prompt}${turn}${round}${HOME}$message", known) == "p23${HOME}$message"
    assert fill_command("echo ${message}", known) == """echo 'it'"'"'s; rm -rf $HOME'"""
    assert fill_command(["echo", "${message}"], known) == ("echo", "it's; rm -rf $HOME")
    assert len(fill("${message}" * 5000, known._replace(message="x" * 500_000))) < 300_000
