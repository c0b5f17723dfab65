"""A script is read strictly: what is wrong is named by its place."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.commands.agent import StartAgent
from contracts.errors import Invalid
from services.agent.runtimes.script import yaml_text
from services.agent.runtimes.script.reading import MAX_TEXT, read
from services.agent.runtimes.script.runtime import ScriptRuntime
from services.agent.runtimes.script.script import Ask, Edit, For, Repeat, Run, Say, Script, Spend, Spent, Wait
from services.agent.runtimes.script.words import Known, fill, fill_command

ROOT = Path(__file__).resolve().parents[3]
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
    docs = ROOT / "docs" / "agents"
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
        ("- say: a\n- &a {repeat: 2, steps: [*a]}", "line 2: a script has no anchors (`&`) and no aliases (`*`)"),
        ("- run: *.py", "neither YAML nor JSON"),
        ("- run: *all", "line 1: a script has no anchors (`&`) and no aliases (`*`): write it out, or put text in"),
        ("- say: a\n  <<: {say: b}", "line 2: a script has no merges (`<<`): write it out"),
        ("- say: !!python/name:os.system x", "line 1: a script has no tags (`!`)"),
        ("%YAML 1.1\n---\n- say: a", "line 1: a line that begins with `%`"),
        ("- say: a\n---\n- say: b", "line 2: a second document"),
        ("- say: a\n  say: b", "line 2: `say` for the second time in one mapping"),
        ("- ? [a]\n  : b", "line 1: a key that is a list or a mapping"),
        ("- write: a\n  content: b\n  mode: 0644", "line 3: `0644` begins with a zero: `0o…` is octal"),
        ("- repeat: 1234567890123456789\n  steps: []", "line 1: a number of 19 characters, 18 at most"),
        ("- spend: {cost_usd: 1e999}", "line 1: `1e999` is more than a number can be"),
        ("- write: a\n  content: b\n  append: yes", "steps[0] (write): Expected `bool`, got `str` - at `$.append`"),
        (f"- say: a\n  {'x' * 900}: b", "steps[0] (say): Object contains unknown field `xxx"),
        ("x" * (MAX_TEXT + 1), f"{MAX_TEXT} at most"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(text: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(text)
    assert words in refused.value.message
    assert len(refused.value.message) < 700


BOMBS = {
    "lists in lists": ("- " * 100_000, "line 1: lists and mappings within one another, 50 deep"),
    "keys in keys": ("? " * 100_000, "line 1: a key that is a list or a mapping"),
    "mappings in mappings": ("{a: " * 60_000, "line 1: lists and mappings within one another, 50 deep"),
    "lines ever further in": ("".join(" " * n + "a:\n" for n in range(700)), "line 51: lists and mappings within"),
    "brackets": ("[" * MAX_TEXT, "too deep to be read"),
    "brackets after a line": ("#\n" + "[" * 200_000, "line 2: lists and mappings within one another, 50 deep"),
    "objects": ('{"a":' * 50_000, "too deep to be read"),
    "lists of JSON in a step": ('[{"say":' + "[" * 900 + "]" * 900 + "}]", "Expected `str`, got `array`"),
    "merges of merges": (
        "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [{f'*a{n - 1},' * 9}]}}\n" for n in range(1, 9)),
        "line 1: a script has no anchors",
    ),
    "aliases of aliases": (
        "- &a0 {say: a}\n" + "".join(f"- &a{n} {{steps: [{f'*a{n - 1},' * 9}]}}\n" for n in range(1, 9)),
        "line 1: a script has no anchors",
    ),
    "numbers to the base of sixty": (f"- repeat: {'1:' * 100_000}1\n  steps: []", "Expected `int`, got `str`"),
    "digits": (f"- repeat: {'1' * 200_000}\n  steps: []", "a number of 200000 characters, 18 at most"),
    "digits of JSON": (f'[{{"repeat": {"1" * 200_000}, "steps": []}}]', "a number of 200000 characters, 18 at most"),
    "digits after the point": (f"- spend: {{cost_usd: 0.{'1' * 200_000}}}", "a number of 200002 characters"),
    "directives": ("".join(f"%TAG !a{n}! tag:x{n}\n" for n in range(11_000)), "line 1: a line that begins with `%`"),
    "documents": ("---\n" * 60_000, "line 2: a second document"),
}
CHILD = """
import json, sys
from contracts.errors import Invalid
from services.agent.runtimes.script import yaml_text
from services.agent.runtimes.script.reading import read
for name, text in json.load(sys.stdin).items():
    print(name, end=": ", flush=True)
    try:
        print(read(text))
    except Invalid as error:
        print(error.message, flush=True)
"""


def test_no_text_brings_the_service_down_or_keeps_it_busy() -> None:
    """In a process of its own, which would die of these, or never end."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    given = json.dumps({name: text for name, (text, _) in BOMBS.items()})
    try:
        said, _ = child.communicate(given, timeout=60)
    except subprocess.TimeoutExpired:
        child.kill()
        said, _ = child.communicate()
    lines = said.splitlines()
    assert child.returncode == 0, f"it ended by {child.returncode} at {lines[-1:]}"
    for line, (name, (_, words)) in zip(lines, BOMBS.items(), strict=True):
        assert line.startswith(f"{name}: script: ")
        assert words in line
        assert len(line) < 700


def test_words_without_quotes_are_what_they_are_in_json_and_else_text() -> None:
    plain = {
        "text": "yes no on off ~ True NULL 1:30 2024-01-01 2024-99-99 1_000 0x1f +5 .5 5. .inf .nan -l 0o8 = 1.2.3",
        "other": "null true false 0 -7 123456789012345678 0o644 0.5 -1.5e3 1e5",
    }
    assert yaml_text.load(f"[{', '.join(plain['text'].split())}]") == plain["text"].split()
    other = yaml_text.load("\n".join(f"- {each}" for each in plain["other"].split()) + "\n-")
    assert repr(other) == "[None, True, False, 0, -7, 123456789012345678, 420, 0.5, -1500.0, 100000.0, None]"
    assert yaml_text.load("1: a\nyes: b\nnull: c\n'5': '5'") == {"1": "a", "yes": "b", "null": "c", "5": "5"}


# Each begins like a word, for to `yaml` some others are numbers.
CHARACTERS = st.characters(
    codec="utf-8", exclude_categories=["Cc", "Cn", "Co", "Zl", "Zp"], exclude_characters="\ufeff"
)
TEXT = st.text(CHARACTERS).map("tx".__add__)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**16), 10**16) | st.sampled_from([0.5, -1.25, 1e-9]) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(VALUES)
def test_what_is_written_is_what_is_read(value: object) -> None:
    assert yaml_text.load(json.dumps(value, ensure_ascii=False)) == value
    assert yaml_text.load(yaml.safe_dump(value, default_flow_style=False, width=10**6)) == value
    assert yaml_text.load(yaml.safe_dump(value, allow_unicode=True, default_flow_style=None)) == value


PIECES = [
    "- ",
    "? ",
    ": ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "\n",
    "  ",
    "\t",
    "\r",
    '"',
    "'",
    "|\n",
    ">-\n",
    "#",
    "%",
    "&a ",
    "*a ",
]
PIECES += [
    "!",
    "!!int ",
    "---\n",
    "...\n",
    "<<: ",
    "a: ",
    "say: ",
    "steps: ",
    "\\u",
    "\\ud800",
    "1:1",
    "0",
    "1e9",
    "9" * 30,
]
PIECES += [
    "\u2028",
    "\ufeff",
    "\x85",
    "\x00",
    "\x7f",
    "\ud800",
    "\U0010ffff",
    "- say: a\n",
    "- repeat: 2\n  steps:\n  ",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=30).map("".join))
def test_any_text_is_a_script_or_is_refused(text: str) -> None:
    try:
        assert isinstance(read(text), Script)
    except Invalid as refused:
        assert refused.message.startswith("script: ")  # noqa: PT017


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
