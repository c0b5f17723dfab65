"""The fold of everything that is known of a sandbox: pure, bounded, and the same whether or not it was interrupted."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import codec, conversation, folding, traffic
from contracts.events import agent, command, network
from contracts.folding import Folded
from contracts.message import Fact
from contracts.payload import Encoding
from contracts.state import MOST_RUNNING, Sequenced, Status
from infra.bus.page import Entry
from services.replay.past.snapshots import Snapshot, mark_of, pack
from tests.contracts.histories import CREATED, CREATING, STARTED, begun, numbered, output, raw_head
from tests.contracts.properties import calm
from tests.replay.strange import UNREADABLE, histories

UP: tuple[Fact, ...] = (CREATING, CREATED, STARTED)


def fold(events: list[Sequenced], folded: Folded | None = None) -> Folded | None:
    for sequence, head in events:
        folded = folding.apply(folded, sequence, head)
    return folded


def after(*facts: Fact) -> Folded:
    folded = fold(numbered([*UP, *facts]))
    assert folded is not None
    return folded


def through_a_snapshot(folded: Folded, event: Sequenced) -> Folded:
    """Packed and read as it would be from a file."""
    entry = Entry(event.sequence, "cloche.log.sb.x.y", codec.encode(event.head), "", "")
    packed = pack(Snapshot(event=mark_of(entry), folded=folded))
    assert packed is not None
    snapshot: Snapshot = codec.decode(packed, Snapshot)
    return snapshot.folded


@calm
@given(histories())
def test_a_snapshot_and_the_events_after_it_are_the_same_as_all_events_at_every_sequence(
    events: list[Sequenced],
) -> None:
    whole = fold(events)
    folded: Folded | None = None
    for at, event in enumerate(events):
        folded = folding.apply(folded, *event)
        if folded is None:
            continue
        restored = through_a_snapshot(folded, event)
        assert restored == folded
        assert fold(events[at + 1 :], restored) == whole


@calm
@given(histories(), st.integers(0, 60), st.integers(0, 60))
def test_events_that_come_again_change_nothing(events: list[Sequenced], since: int, until: int) -> None:
    folded = fold(events)
    if folded is not None:
        assert fold(events[since:until], folded) == folded


@calm
@given(histories())
def test_whatever_was_written_it_goes_on_and_the_cursors_are_right(events: list[Sequenced]) -> None:
    folded = fold(events)
    if folded is not None:
        assert folded.sequence == folded.state.applied_sequence == events[-1].sequence
        assert folded.state.last_event_at == events[-1].head.time
        assert len(folded.conversation.lines) <= conversation.KEPT
        assert len(folded.traffic.requests) <= traffic.KEPT


@pytest.mark.parametrize(("tag", "data"), UNREADABLE, ids=lambda each: str(each)[:40])
def test_what_cannot_be_read_or_used_moves_nothing_but_the_cursors(tag: str, data: bytes) -> None:
    before = after(begun(), agent.AgentStarted(run="run-1", runtime="script", prompt=""))
    moved = folding.apply(before, 9, raw_head(9, tag, data))
    assert moved is not None
    assert (moved.sequence, moved.state.applied_sequence) == (9, 9)
    assert (moved.conversation, moved.traffic) == (before.conversation, before.traffic)
    assert (moved.state.running, moved.state.runs) == (before.state.running, before.state.runs)
    assert moved.state.status == Status.RUNNING
    # And what comes next is folded as ever.
    later = folding.apply(moved, 10, raw_head(10, "command.output", codec.encode(output(b"abc", 4))))
    assert later is not None
    assert later.state.running["x"].totals.stdout == 7


def test_output_counts_for_a_command_that_runs() -> None:
    folded = after(begun(), output(b"abc", 0), output(b"de", 3))
    assert folded.state.running["x"].totals.stdout == 5


def test_a_message_that_comes_in_parts_is_one_line_that_grows() -> None:
    parts = [
        agent.AgentMessage(run="r", text="One, ", partial=True, message="m"),
        agent.AgentMessage(run="r", text="two, ", partial=True, message="m", offset=5),
    ]
    growing = after(*parts).conversation.lines
    assert [(line.text, line.partial) for line in growing] == [("One, two, ", True)]
    whole = after(*parts, agent.AgentMessage(run="r", text="One, two, three.", message="m")).conversation.lines
    assert [(line.text, line.partial) for line in whole] == [("One, two, three.", False)]


def test_the_conversation_tells_who_said_what() -> None:
    told = after(
        agent.AgentStarted(run="r", runtime="script", prompt="do it"),
        agent.AgentToolUse(run="r", call="c1", tool="bash", input={"command": "ls"}),
        agent.AgentApprovalRequested(run="r", approval="a1", tool="bash", input={"command": "rm x"}, reason="writes"),
        agent.AgentRejected(run="r", approval="a1", by="guardian/rules", reason="no"),
        agent.AgentToolResult(run="r", call="c1", ok=False, output="denied"),
        agent.UserGuidance(run="r", text="try less", by="guardian"),
        agent.UserMessage(run="r", text="go on", by="ada"),
        agent.AgentRejected(run="r", approval="a2", by="policy", reason="never"),
        agent.AgentCompleted(run="r", reason="done"),
    ).conversation
    assert [(line.kind, line.who, line.text) for line in told.lines] == [
        ("prompt", "user", "do it"),
        ("tool_use", "agent", "ls"),
        ("asked", "agent", "writes: rm x"),
        ("rejected", "guardian", "no"),
        ("tool_result", "agent", "denied"),
        ("user", "guardian", "try less"),
        ("user", "user", "go on"),
        ("rejected", "system", "never"),
        ("note", "system", "ended: done"),
    ]
    assert [line.ok for line in told.lines if line.kind == "tool_result"] == [False]
    assert {line.run for line in told.lines} == {"r"}


def test_only_the_last_lines_are_kept_and_the_others_counted() -> None:
    said = [agent.AgentMessage(run="r", text=f"{number}") for number in range(conversation.KEPT + 7)]
    told = after(*said).conversation
    assert (len(told.lines), told.earlier) == (conversation.KEPT, 7)
    assert told.lines[-1].text == f"{conversation.KEPT + 6}"


def test_a_line_is_cut_where_it_is_too_long() -> None:
    told = after(agent.AgentMessage(run="r", text="x" * 1_000_000)).conversation
    assert len(told.lines[0].text) == conversation.BRIEF


def test_what_passed_and_what_was_denied_is_counted_and_the_last_of_it_shown() -> None:
    passed = network.NetworkAllowed(host="a", port=443, method="GET", status=200, sent_bytes=3, received_bytes=50)
    burst = network.NetworkBatch(requests=(passed,) * (traffic.KEPT + 10))
    denied = network.NetworkDenied(host="b", port=80, method="PUT", reason="not allowed", count=4)
    told = after(passed, denied, burst).traffic
    assert (told.allowed, told.denied) == (traffic.KEPT + 11, 4)
    assert (told.sent_bytes, told.received_bytes) == (3 * (traffic.KEPT + 11), 50 * (traffic.KEPT + 11))
    assert (len(told.requests), told.earlier) == (traffic.KEPT, 12)
    early = after(passed, denied).traffic
    assert [(each.allowed, each.host, each.reason, each.count) for each in early.requests] == [
        (True, "a", "", 1),
        (False, "b", "not allowed", 4),
    ]


def test_a_history_with_endless_commands_is_bounded() -> None:
    folded = after()
    for number in range(MOST_RUNNING + 3):
        at = 10 + number
        moved = folding.apply(folded, at, raw_head(at, "command.started", codec.encode(begun(f"e{number}"))))
        assert moved is not None
        folded = moved
    assert len(folded.state.running) == MOST_RUNNING
    assert "e2" not in folded.state.running


def test_what_would_be_beyond_all_numbers_is_not_added() -> None:
    spending = agent.AgentMetrics(run="r", cost_usd=1.5e308, duration_ms=1.5e308)
    run = agent.AgentStarted(run="r", runtime="script", prompt="")
    folded = after(run, spending, spending)
    assert folded.state.cost_usd == folded.state.runs[0].cost_usd == folded.state.runs[0].duration_ms == 1.5e308


def test_sums_that_nobody_could_write_down_are_not_made() -> None:
    """Python reads a number of 4,300 digits, and writes none that is longer."""
    huge = 10**4299
    run = agent.AgentStarted(run="r", runtime="script", prompt="")
    spending = agent.AgentMetrics(run="r", input_tokens=9 * huge, turns=9 * huge)
    denied = network.NetworkDenied(host="h", port=1, method="GET", reason="r", count=9 * huge)
    passed = network.NetworkAllowed(host="h", port=1, method="GET", sent_bytes=9 * huge, received_bytes=9 * huge)
    far = command.CommandOutput(
        exec="x", stream=command.Stream.STDOUT, offset=9 * huge, size=9 * huge, data="", encoding=Encoding.UTF8
    )
    folded = after(run, spending, spending, denied, denied, passed, passed, begun(), far)
    assert folded.state.tokens == folded.state.runs[0].turns == folded.traffic.denied == 0
    assert msgspec.json.decode(codec.encode(folded), type=Folded) == folded


def test_what_would_not_be_the_same_again_is_not_kept_in_a_snapshot() -> None:
    folded = after()
    beyond = msgspec.structs.replace(folded, state=msgspec.structs.replace(folded.state, cost_usd=float("inf")))
    assert pack(Snapshot(event="x", folded=beyond)) is None
    assert pack(Snapshot(event="x", folded=folded)) is not None


def test_a_fold_is_the_same_as_json_and_back() -> None:
    folded = after(begun(), agent.AgentStarted(run="r", runtime="script", prompt="grüß"))
    assert msgspec.json.decode(msgspec.json.encode(folded), type=Folded) == folded
