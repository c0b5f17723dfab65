"""The protocol, line by line: what an agent says as facts, and every way to break it."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.agents import ApprovalRule, Verdict, subject_of, verdict_for
from contracts.events import agent as facts
from contracts.message import Fact
from services.agent.record import Answer
from services.agent.runtimes.acp import envelope, permissions, talk
from services.agent.runtimes.acp.envelope import Broken, Stray
from services.agent.runtimes.acp.permissions import Permission
from services.agent.runtimes.acp.retelling import BEGINNING, MOST, retold
from services.agent.runtimes.acp.said import mark, said
from services.agent.runtimes.acp.sessions import Session
from services.agent.runtimes.acp.speech import MESSAGE_CHARACTERS, Chunk
from services.agent.runtimes.acp.talk import Happening, Refused, Settled, Talk

SESSION = "s-1"
OPTIONS = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def update(what: str, **fields: Any) -> bytes:
    return line(method=talk.UPDATE, params={"sessionId": SESSION, "update": {"sessionUpdate": what, **fields}})


def words(text: str, what: str = "agent_message_chunk", **more: Any) -> bytes:
    return update(what, content={"type": "text", "text": text}, **more)


def permission(own: object = "p-1", call: str = "c", **more: Any) -> bytes:
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": call, **more}, "options": OPTIONS}
    return line(id=own, method=talk.PERMISSION, params=params)


def in_a_turn() -> Talk:
    begun = Talk("run", "process", cost_at_once=False)
    begun.ask(envelope.request(0, talk.INITIALIZE, {}))
    begun.hear(line(id=0, result={"protocolVersion": 1}))
    begun.ask(envelope.request(1, talk.NEW, {}))
    begun.hear(line(id=1, result={"sessionId": SESSION}))
    begun.ask(envelope.request(2, talk.PROMPT, {}))
    return begun


def heard(*lines: bytes) -> list[Happening]:
    begun = in_a_turn()
    return [happening for each in lines for happening in begun.hear(each)]


def told(*lines: bytes) -> list[Fact]:
    return [happening for happening in heard(*lines) if isinstance(happening, Fact)]


END = line(id=2, result={"stopReason": "end_turn"})


def test_chunks_are_one_message_until_something_else_is_said() -> None:
    said_so = told(words("a"), words("b"), words("c", "agent_thought_chunk"), words("d", messageId="x"), END)
    assert [(type(fact).__name__, getattr(fact, "text", "")) for fact in said_so] == [
        ("AgentMessage", "ab"),
        ("AgentThinking", "c"),
        ("AgentMessage", "d"),
    ]


def test_the_parts_of_a_message_are_told_as_they_come_and_belong_to_the_whole() -> None:
    happened = heard(words("a"), words("b"), END)
    chunks = [each for each in happened if isinstance(each, Chunk)]
    whole = next(each for each in happened if isinstance(each, facts.AgentMessage))
    assert [each.text for each in chunks] == ["a", "b"]
    assert {each.message for each in chunks} == {whole.message}


@given(st.lists(st.text(max_size=2 * MESSAGE_CHARACTERS), max_size=4))
def test_no_character_is_lost_and_no_event_is_too_long(texts: list[str]) -> None:
    clean = [text.encode("utf-8", "ignore").decode() for text in texts]
    messages = [fact.text for fact in told(*map(words, clean), END) if isinstance(fact, facts.AgentMessage)]
    assert "".join(messages) == "".join(clean)
    assert all(0 < len(text) <= MESSAGE_CHARACTERS for text in messages)


def test_a_tool_call_is_told_once_it_is_known_what_it_is_about() -> None:
    opened = {"toolCallId": "c", "title": "Terminal", "kind": "execute", "status": "pending", "rawInput": {}}
    known = update("tool_call_update", toolCallId="c", title="ls", rawInput={"command": "ls"})
    assert told(update("tool_call", **opened)) == []
    (use,) = told(update("tool_call", **opened), known)
    assert isinstance(use, facts.AgentToolUse)
    assert (use.tool, use.input) == ("execute", {"title": "ls", "command": "ls"})


def test_what_a_call_is_about_is_its_place_where_its_input_does_not_say() -> None:
    place = [{"path": "/workspace/a.txt"}]
    (use,) = told(update("tool_call", toolCallId="c", title="Read", status="in_progress", locations=place))
    assert isinstance(use, facts.AgentToolUse)
    assert subject_of(use.input) == "/workspace/a.txt"


def test_a_call_that_is_open_when_its_turn_ends_has_failed() -> None:
    use, result = told(update("tool_call", toolCallId="c", title="t", rawInput={}), END)
    assert isinstance(use, facts.AgentToolUse)
    assert isinstance(result, facts.AgentToolResult)
    assert not result.ok


def test_a_result_without_its_call_is_told_with_one() -> None:
    told_of = told(update("tool_call_update", toolCallId="c", status="completed", rawOutput={"a": 1}))
    assert [type(fact).__name__ for fact in told_of] == ["AgentToolUse", "AgentToolResult"]
    assert isinstance(told_of[1], facts.AgentToolResult)
    assert told_of[1].output == '{"a":1}'


def test_costs_are_told_with_the_turn_and_each_once() -> None:
    cost = {"used": 1, "size": 2}
    spent = [update("usage_update", cost={"amount": amount, "currency": "USD"}, **cost) for amount in (0.5, 0.75, 0.1)]
    begun = in_a_turn()
    (first,) = (each.turn for one in (*spent, END) for each in begun.hear(one) if isinstance(each, Settled))
    begun.ask(envelope.request(3, talk.PROMPT, {}))
    (second,) = (
        each.turn for each in begun.hear(line(id=3, result={"stopReason": "end_turn"})) if isinstance(each, Settled)
    )
    assert first is not None
    assert second is not None
    assert (first.cost_usd, second.cost_usd) == (0.75, 0.0)


@pytest.mark.parametrize(
    ("name", "totals", "spent"),
    [
        (SESSION, (0.75, 1.0), 0.5),
        (SESSION, (0.25, 0.5), 0.5),
        (SESSION, (0.0, 0.75), 0.75),
        ("another", (0.75, 1.0), 1.0),
    ],
    ids=["it goes on counting", "it counts anew", "it counts anew from nothing", "it was another session"],
)
def test_what_a_session_has_cost_before_it_was_loaded_is_not_counted_again(
    name: str, totals: tuple[float, ...], spent: float
) -> None:
    begun = Talk("run", "process", cost_at_once=False, earlier=Session(name=name, cost_usd=0.5))
    begun.ask(envelope.request(1, talk.LOAD, {"sessionId": SESSION, "cwd": "/", "mcpServers": []}))
    begun.hear(line(id=1, result=None))
    begun.ask(envelope.request(2, talk.PROMPT, {}))
    for total in totals:
        begun.hear(update("usage_update", used=1, size=2, cost={"amount": total, "currency": "USD"}))
    (settled,) = (each for each in begun.hear(END) if isinstance(each, Settled))
    assert settled.turn is not None
    assert settled.turn.cost_usd == spent


@pytest.mark.parametrize(("amount", "counted"), [("1e999", 0), ("-1", 0), ("1.7e308", talk.MOST_USD)])
def test_a_cost_that_nobody_could_have_is_not_believed(amount: str, counted: float) -> None:
    begun = in_a_turn()
    said_so = update("usage_update", used=1, size=2, cost={"amount": 4321, "currency": "USD"})
    begun.hear(said_so.replace(b"4321", amount.encode()))
    assert begun.cost_usd == counted


@pytest.mark.parametrize(
    "given",
    [
        {"command": "cat secret", "more": "x" * 100_000},
        {"command": "x" * 100_000 + " cat secret"},
        ["cat", "secret"],
        "cat secret",
    ],
    ids=lambda given: str(given)[:20],
)
def test_rules_are_about_the_whole_of_what_leave_is_asked_for(given: object) -> None:
    rules = (ApprovalRule(pattern="*cat secret", verdict=Verdict.DENY),)
    (asked,) = (each for each in heard(permission(kind="execute", rawInput=given)) if isinstance(each, Permission))
    assert verdict_for(rules, asked.tool, asked.input).verdict is Verdict.DENY


def test_history_that_an_agent_repeats_when_it_loads_a_session_is_not_told_again() -> None:
    begun = Talk("run", "process", cost_at_once=False)
    begun.ask(envelope.request(1, talk.LOAD, {"sessionId": SESSION, "cwd": "/", "mcpServers": []}))
    assert begun.hear(words("old")) == []
    begun.hear(line(id=1, result=None))
    assert begun.session == SESSION
    assert [each for each in begun.hear(words("new")) if isinstance(each, Chunk)]


@pytest.mark.parametrize(
    "raw",
    [
        line(id={"a": 1}, method="x"),
        line(id=None, error={"code": -32700, "message": "parse error"}),
        line(id="x" * 300, result=1),
        line(id=99, result=1),
        line(id=1, result={"sessionId": "again"}),
        line(id=2, result={"stopReason": "because"}),
        line(id=2, result=None),
        line(hello="you"),
        b'{"id": 7, "params": ' + b"[" * 100_000,
        words("a").replace(b"s-1", b"s-2"),
        permission().replace(b"s-1", b"s-2"),
        update("tool_call", toolCallId="", title="t"),
        update("tool_call", toolCallId="x" * 300, title="t"),
    ],
    ids=lambda raw: raw[:60].decode(),
)
def test_what_breaks_the_protocol_is_said_in_few_words(raw: bytes) -> None:
    with pytest.raises(Broken) as broken:
        heard(raw)
    assert len(str(broken.value)) < 600


@pytest.mark.parametrize("raw", [b"hello", b"[1, 2]", b"\xff\x00", b'{"a": "\xff"}', b"{", b"7", b"null"])
def test_what_is_no_message_is_a_stray_line(raw: bytes) -> None:
    with pytest.raises(Stray):
        heard(raw)


def test_an_update_that_cannot_be_read_is_a_stray_line_and_one_of_tomorrow_is_left_alone() -> None:
    with pytest.raises(Stray):
        heard(update("tool_call", toolCallId=5))
    with pytest.raises(Stray):
        heard(words("a").replace(b'"a"', b'"\\ud800"'))
    assert heard(update("of_tomorrow", x=1)) == []


def test_two_requests_of_one_name_or_too_many_at_once_break_the_protocol() -> None:
    with pytest.raises(Broken, match="two requests"):
        heard(permission(), permission())
    with pytest.raises(Broken, match="requests at once"):
        heard(*(permission(own=number, call="c") for number in range(101)))
    with pytest.raises(Broken, match="tool calls at once"):
        heard(*(update("tool_call", toolCallId=f"c{number}", title="t") for number in range(1001)))


def test_another_version_of_the_protocol_is_refused() -> None:
    begun = Talk("run", "process", cost_at_once=False)
    begun.ask(envelope.request(0, talk.INITIALIZE, {}))
    with pytest.raises(Broken, match="version 7"):
        begun.hear(line(id=0, result={"protocolVersion": 7}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
METHODS = st.sampled_from([talk.UPDATE, talk.PERMISSION, "fs/read_text_file", "", "x"])
KINDS = st.sampled_from(["tool_call", "tool_call_update", "agent_message_chunk", "plan", "usage_update"])
FIELDS = (
    "toolCallId",
    "title",
    "status",
    "content",
    "rawInput",
    "rawOutput",
    "locations",
    "entries",
    "cost",
    "used",
    "kind",
)
UPDATES = st.builds(
    lambda what, fields: {"sessionId": SESSION, "update": {"sessionUpdate": what, **fields}},
    KINDS,
    st.dictionaries(st.sampled_from(FIELDS), JSON | st.just("c"), max_size=6),
)


@given(
    st.lists(st.fixed_dictionaries({"method": METHODS, "params": UPDATES | JSON}, optional={"id": JSON}), max_size=5)
)
def test_whatever_an_agent_says_is_told_in_facts_or_refused(messages: list[dict[str, Any]]) -> None:
    begun = in_a_turn()
    for message in messages:
        try:
            happened = begun.hear(json.dumps(message).encode())
        except (Broken, Stray):
            continue
        for each in happened:
            if isinstance(each, Fact):
                msgspec.json.encode(each)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(raw: bytes) -> None:
    try:
        in_a_turn().hear(raw)
    except (Broken, Stray):
        return


def test_leave_is_said_in_the_options_that_the_agent_offers_and_never_for_ever() -> None:
    (asked,) = (each for each in heard(permission()) if isinstance(each, Permission))
    assert permissions.allowed(asked)["outcome"]["optionId"] == "y"
    assert permissions.denied(asked)["outcome"]["optionId"] == "n"
    assert permissions.allowed(asked._replace(options=asked.options[1:])) == permissions.CANCELLED


def test_a_question_that_was_taken_back_is_answered_so_in_every_life_of_the_service() -> None:
    (asked,) = (each for each in heard(permission()) if isinstance(each, Permission))
    for reason in (permissions.INTERRUPTED, permissions.OVER):
        assert permissions.answer(asked, Answer(False, "policy", reason)) == permissions.CANCELLED
    assert permissions.answer(asked, Answer(False, "user", permissions.OVER))["outcome"]["optionId"] == "n"
    assert permissions.answer(asked, Answer(True, "policy"))["outcome"]["optionId"] == "y"


def test_a_question_that_cannot_be_read_is_refused() -> None:
    (refused,) = heard(line(id=5, method=talk.PERMISSION, params={"sessionId": SESSION}))
    assert isinstance(refused, Refused)
    assert refused.code == envelope.INVALID_PARAMS


def test_what_was_said_to_a_process_is_known_again() -> None:
    asked = envelope.request(2, talk.PROMPT, {"sessionId": SESSION, "prompt": []})
    lines = [
        envelope.encode(asked),
        envelope.answer("a", {**permissions.CANCELLED, "_meta": mark(3)}),
        envelope.refusal("b", envelope.Wrong(-1, "no", mark(4))),
        b"typed by somebody",
        envelope.answer("c", None),
    ]
    known = said(lines)
    assert known.requests[2].method == talk.PROMPT
    assert known.answered == {3, 4}


def test_a_long_conversation_is_retold_from_its_end() -> None:
    many = [facts.AgentMessage(run="r", text=f"word {number} " + "x" * 100) for number in range(2000)]
    text = retold([facts.AgentStarted(run="r", runtime="acp", prompt="begin"), *many])
    assert text.startswith(f"{BEGINNING}\n…\n")
    assert "word 1999" in text
    assert len(text) < MOST + 5000
    assert retold([]) == ""
