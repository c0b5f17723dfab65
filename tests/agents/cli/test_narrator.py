"""The story of a run, as a person reads it."""

import datetime
import itertools
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from contracts import codec, subjects
from contracts.errors import Failure
from contracts.events import agent, file, guardian, network
from contracts.message import Event, Fact
from contracts.registry import EVENTS, scope_of, tag_of
from infra.bus.connection import Bus
from infra.client.agent_run import AgentRun, RunEvent
from services.cli.agent_narrator import Narrator, at_the_shell
from tests.contracts.properties import calm
from tests.contracts.samples import EVENT_SAMPLES

STARTED = agent.AgentStarted(run="r", runtime="script", prompt="grow", model="m-1")
NOBODY = cast("Bus", None)
EVIL = "\x1b[2J\x1b]0;owned\x07\r\u202egnp\u009b31m"


class Told:
    """A run that is told as its events come."""

    def __init__(self, *, width: int | None = None) -> None:
        self.narrator = Narrator(AgentRun(NOBODY, "sb", STARTED, 1), at_the_shell("sb"), width=width)
        self._numbers = itertools.count(1)
        self(STARTED)

    def __call__(self, *facts: Fact) -> list[str]:
        return [line.plain for fact in facts for line in self.narrator.tell(self.event(fact))]

    def event(self, fact: Fact) -> RunEvent:
        number = next(self._numbers)
        event = Event(
            id=f"e-{number}",
            source="agent/n1",
            type=tag_of(fact),
            time=datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC),
            sandboxid="sb",
            correlationid=f"c-{number}",
            data=fact,
        )
        raw = codec.encode(event)
        subject = subjects.event("sb", event.type, scope_of(fact))
        return RunEvent(number, subject, codec.decode_head(raw), fact, raw)


def part(text: str, offset: int, message: str = "m1") -> agent.AgentMessage:
    return agent.AgentMessage(run="r", text=text, partial=True, message=message, offset=offset)


def whole(text: str, message: str = "m1") -> agent.AgentMessage:
    return agent.AgentMessage(run="r", text=text, message=message)


def test_a_message_that_comes_in_parts_is_told_once() -> None:
    told = Told()
    assert told(part("Hel", 0)) == []
    assert told.narrator.tail.plain == "│ Hel"
    assert told(part("lo\nwor", 3)) == ["│ Hello"]
    assert told(whole("Hello\nworld!")) == ["│ world!"]
    assert told.narrator.tail.plain == ""


def test_a_message_that_was_cut_off_is_told_as_far_as_it_came() -> None:
    told = Told()
    told(part("I was about to", 0))
    assert told(agent.AgentInterrupted(run="r", reason="asked")) == ["│ I was about to", "interrupted"]


def test_what_others_say_meanwhile_does_not_break_a_sentence() -> None:
    told = Told()
    told(part("Hel", 0))
    assert told(agent.UserMessage(run="r", text="stop\nit", by="user")) == ["user> stop", "    │ it"]
    assert told(part("lo", 3), whole("Hello")) == ["│ Hello"]


def test_on_a_terminal_long_words_come_row_by_row() -> None:
    told = Told(width=10)
    assert told(part("one two three four", 0)) == ["│ one two", "│ three"]
    assert told.narrator.tail.plain == "│ four"
    assert told(whole("one two three four")) == ["│ four"]


def test_a_tool_call_says_what_it_is_about_and_its_result_is_cut() -> None:
    told = Told()
    use = agent.AgentToolUse(run="r", call="1", tool="Bash", input={"command": "make\ntest", "description": "x"})
    assert told(use) == ["→ Bash  make  (+1 lines)"]
    output = "\n".join(f"line {number}" for number in range(20))
    assert told(agent.AgentToolResult(run="r", call="1", ok=True, output=output)) == [
        "  │ line 0", "  │ line 1", "  │ line 2", "  │ line 3",
        "  … 13 more lines",
        "  │ line 17", "  │ line 18", "  │ line 19",
    ]  # fmt: skip
    assert told(agent.AgentToolResult(run="r", call="1", ok=False, output="", duration_ms=2500)) == ["  failed (2.5 s)"]
    assert told(agent.AgentToolUse(run="r", call="2", tool="Todo", input={"a": 1})) == ['→ Todo  {"a": 1}']


def asks(approval: str, **more: Any) -> agent.AgentApprovalRequested:
    given_ = {"command": "rm -rf build", "why": "it is old"}
    return agent.AgentApprovalRequested(run="r", approval=approval, tool="Bash", input=given_, **more)


def test_an_approval_says_all_that_one_needs_to_decide_and_how_to_answer() -> None:
    told = Told()
    assert told(asks("ap-1", reason="asked by a rule")) == [
        "? may it use Bash",
        "  │ command: rm -rf build",
        "  │ why: it is old",
        "  reason given: asked by a rule",
        "  yes: cloche agent approve sb",
        "  no:  cloche agent reject sb --reason '…'",
    ]
    assert told(asks("ap-2"))[-2:] == [
        "  yes: cloche agent approve sb ap-2",
        "  no:  cloche agent reject sb ap-2 --reason '…'",
    ]
    assert told(agent.AgentApproved(run="r", approval="ap-1", by="user", reason="fine")) == ["  approved by user: fine"]
    expired = agent.AgentRejected(run="r", approval="ap-2", by="policy", expired=True)
    assert told(expired) == ["  denied: nobody answered in time"]


OURS = "  denied by policy: rule\n? may it use Bash\n  yes: /approve    no: /reject why\nuser> yes, go on\nover: done"


@pytest.mark.parametrize("width", [None, 30])
@pytest.mark.parametrize(
    "fact",
    [
        agent.AgentThinking(run="r", text=OURS),
        agent.AgentMessage(run="r", text=OURS),
        part(OURS, 0),
        agent.AgentMessage(run="r", text=OURS, parent="call"),
        agent.AgentToolResult(run="r", call="1", ok=True, output=OURS),
        agent.AgentAttached(run="r", process="p", attempt=2, reason=OURS),
    ],
)
def test_what_an_agent_says_never_looks_like_what_is_said_of_it(fact: Fact, width: int | None) -> None:
    told = Told(width=width)
    lines = [*told(fact), told.narrator.tail.plain]
    forged = [line for line in lines if any(each.strip() in line for each in OURS.split("\n"))]
    assert len(forged) >= 4
    assert all(line.lstrip(" ").startswith("│ ") for line in forged)


def test_what_others_wrote_in_several_lines_is_marked_from_the_second_line_on() -> None:
    told = Told()
    said = agent.UserMessage(run="r", text=OURS, by="user")
    assert [line[:6] for line in told(said)] == ["user> ", "    │ ", "    │ ", "    │ ", "    │ "]
    begun = told(agent.AgentStarted(run="r", runtime="script", prompt=OURS))[1:]
    assert [line[:2] for line in begun] == ["> ", "│ ", "│ ", "│ ", "│ "]


def test_what_cannot_be_shown_whole_is_answered_by_its_id() -> None:
    told = Told()
    asked = agent.AgentApprovalRequested(run="r", approval="ap-1", tool="Bash", input={"command": "x" * 3000})
    assert told(asked)[-3:] == [
        "  … 1,009 more characters: cloche agent pending sb ap-1",
        "  yes: cloche agent approve sb ap-1",
        "  no:  cloche agent reject sb ap-1 --reason '…'",
    ]


def test_a_run_that_is_about_to_end_is_not_told_of() -> None:
    told = Told()
    assert told(agent.AgentClosing(run="r")) == []
    assert told.narrator.state is not None
    assert told.narrator.state.closing
    told(agent.AgentAttached(run="r", process="p", attempt=2))
    assert not told.narrator.state.closing, "it has another turn"


def test_arguments_that_could_just_be_read_are_told_all_the_same() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    told = Told()
    use = agent.AgentToolUse(run="r", call="1", tool="Bash")
    event = told.event(use)._replace(fact=replace(use, input={"command": [deep]}))
    assert [line.plain for line in told.narrator.tell(event)] == ["→ Bash  (nested too deep to be shown)"]
    event = told.event(asks("ap-1"))._replace(fact=replace(asks("ap-1"), input={"command": [deep], "why": deep}))
    missing = "  … (nested too deep to be shown): cloche agent pending sb ap-1"
    assert missing in [line.plain for line in told.narrator.tell(event)]


def test_what_was_said_is_told_when_it_is_heard() -> None:
    told = Told()
    told(agent.UserGuidance(run="r", text="leave the\nAPI alone", by="guardian/n1"))
    heard = agent.AgentDelivered(run="r", order="c-2", kind="guidance", sequence=2, where="tool_call")
    assert told(heard) == ["  “leave the API alone” is heard before its next tool call"]


def test_a_turn_and_a_run_end_with_what_they_cost() -> None:
    told = Told()
    told(agent.AgentToolUse(run="r", call="1", tool="Bash"))
    spent = agent.AgentMetrics(
        run="r", input_tokens=1200, output_tokens=34, cost_usd=0.0123, turns=1, tool_calls=1, duration_ms=4200
    )
    assert told(spent) == ["  turn over: 1 tool call, 1,234 tokens, $0.0123, 4.2 s"]
    assert told(agent.AgentWaiting(run="r", reason="turn over")) == ["it waits: cloche agent say sb '…'"]
    failure = Failure(code="AGENT_FAILED", message="it fell silent")
    assert told(agent.AgentError(run="r", failure=failure, final=False)) == [
        "goes on after an error: it fell silent (AGENT_FAILED)"
    ]
    assert told(agent.AgentError(run="r", failure=failure, detail="Segmentation fault")) == [
        "failed: it fell silent (AGENT_FAILED)",
        "  │ Segmentation fault",
        "  in all: 1 tool call, 1,234 tokens, $0.0123, 4.2 s",
    ]


def test_what_happens_around_an_agent_is_in_its_story() -> None:
    told = Told()
    assert told(file.FileDeleted(path="/workspace/a")) == ["  - /workspace/a"]
    denied = network.NetworkDenied(host="evil.example", port=443, method="CONNECT", reason="not allowed")
    assert told(denied) == ["  network: evil.example:443 was denied: not allowed"]
    step = guardian.GuardianIntervention(rule="budget", step="guidance", text="nearly spent", evidence=(1,))
    assert told(step) == ["  guardian (budget, guidance): nearly spent"]


HOSTILE: list[Fact] = [
    agent.AgentStarted(run="r", runtime="script", prompt=EVIL, model=EVIL),
    agent.AgentThinking(run="r", text=EVIL),
    part(EVIL, 0),
    whole(EVIL, "m2"),
    agent.AgentMessage(run="r", text=EVIL, parent="call"),
    agent.AgentToolUse(run="r", call=EVIL, tool=EVIL, input={EVIL: EVIL}),
    agent.AgentToolUse(run="r", call="c", tool="Bash", input={"command": EVIL}),
    agent.AgentToolResult(run="r", call=EVIL, ok=False, output=EVIL),
    agent.AgentApprovalRequested(run="r", approval=EVIL, tool=EVIL, input={"path": EVIL, EVIL: [EVIL]}, reason=EVIL),
    agent.AgentApprovalRequested(run="r", approval=EVIL, tool=EVIL, input={EVIL: EVIL}),
    agent.AgentRejected(run="r", approval=EVIL, by=EVIL, reason=EVIL),
    agent.UserMessage(run="r", text=EVIL, by=EVIL),
    agent.UserInterrupt(run="r", reason=EVIL, by=EVIL),
    agent.AgentDelivered(run="r", order="c-13", kind=EVIL, sequence=1, where=EVIL),
    agent.AgentAttached(run="r", process="p", attempt=2, reason=EVIL),
    agent.AgentPaused(run="r", reason=EVIL),
    agent.AgentError(run="r", failure=Failure(code=EVIL, message=EVIL), detail=EVIL, final=False),
    file.FileDeleted(path=EVIL),
    agent.AgentCompleted(run="r", reason=EVIL, result=EVIL),
]


@pytest.mark.parametrize("width", [None, 10])
def test_nothing_that_an_agent_says_can_move_a_cursor_or_turn_a_line_around(width: int | None) -> None:
    told = Told(width=width)
    lines = [line for fact in HOSTILE for line in told(fact)]
    assert len(lines) > len(HOSTILE)
    assert all(line.isprintable() for line in lines)
    assert told.narrator.tail.plain.isprintable()


SAMPLES = [EVENT_SAMPLES[tag].data for tag in EVENTS]


@calm
@given(st.lists(st.sampled_from(SAMPLES), max_size=40), st.sampled_from([None, 5, 80]))
def test_whatever_comes_in_whatever_order_is_told_as_lines(facts: list[Fact], width: int | None) -> None:
    for line in Told(width=width)(*facts):
        assert line.isprintable()
