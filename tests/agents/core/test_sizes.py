"""Whatever a model or a runtime says fits into an event, and says so where something is missing."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from contracts import codec
from contracts.events import agent as facts
from contracts.message import Event
from contracts.streams import MAX_MESSAGE_BYTES
from infra import clock
from services.agent.sizes import INPUT, bounded

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def stored(fact: facts.AgentToolUse | facts.AgentMessage | facts.AgentToolResult) -> bytes:
    event = Event(id="x", source="agent/n", type="agent.x", time=clock.now(), sandboxid="sb", data=bounded(fact))
    return codec.encode(event)


@given(st.dictionaries(st.text(st.characters(codec=None), max_size=5), ANY_JSON, max_size=4))
def test_any_arguments_of_a_tool_call_can_be_stored(arguments: dict[str, object]) -> None:
    use = facts.AgentToolUse(run="r", call="c", tool="t", input=arguments)
    msgspec.json.decode(stored(use))


def test_arguments_that_are_too_large_are_cut_and_say_so() -> None:
    use = facts.AgentToolUse(run="r", call="c" * 10_000, tool="t" * 10_000, input={"content": "\x01" * INPUT})
    raw = stored(use)
    assert len(raw) < MAX_MESSAGE_BYTES
    assert b'"truncated":true' in raw


@given(st.text(st.characters(codec=None), max_size=50))
def test_any_text_can_be_stored(text: str) -> None:
    stored(facts.AgentMessage(run="r", text=text * 10_000, message=text * 10, parent=text))
    assert len(stored(facts.AgentToolResult(run="r", call=text, ok=True, output="\x01" * 300_000))) < MAX_MESSAGE_BYTES
