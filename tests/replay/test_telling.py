"""How the past looks to a person at a terminal, and how a person names a moment of it."""

import datetime

import pytest
from msgspec.structs import replace

from contracts.errors import Invalid
from contracts.events import agent, network
from contracts.events.health import VitalsMetrics
from contracts.past import StateAt
from infra import clock
from services.cli.moments import moment
from services.cli.state_view import lines
from tests.contracts.histories import begun, completed, output
from tests.replay.test_folding import after

NASTY = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\r\n\x9b31m"


def told(*facts: object) -> str:
    folded = after(*facts)  # type: ignore[arg-type]
    answer = StateAt(
        sequence=folded.sequence,
        time=folded.state.last_event_at,
        state=folded.state,
        conversation=folded.conversation,
        traffic=folded.traffic,
        use=VitalsMetrics(cpu_percent=12.5, memory_bytes=1 << 20, processes=3, disk_bytes=2048),
    )
    return "\n".join(line.plain for line in lines(answer, "7 entries"))


def test_it_tells_what_matters() -> None:
    text = told(
        begun("running"),
        output(b"abc", 0, exec_id="running"),
        begun("over"),
        completed("over", stdout=9),
        agent.AgentStarted(run="r", runtime="script", prompt="tidy up"),
        agent.AgentApprovalRequested(run="r", approval="a", tool="bash", input={"command": "rm -r x"}),
        network.NetworkDenied(host="evil.test", port=443, method="GET", reason="not allowed", count=2),
    )
    for words in (
        "sb  running  at sequence 10",
        "use       CPU 12%, 1.0M of 4.0G memory, 2.0K disk, 3 processes",
        "files     7 entries",
        "running  cat  6 s before, 3 bytes out",
        "over  cat  exit 0 in 0.002 s, 9 bytes out",
        "Agent script  r  running",
        "waits     bash rm -r x  (asked 1 s before)",
        "user asks for  tidy up",
        "agent asks for leave  bash rm -r x",
        "Network  0 passed, 2 denied",
        "denied  GET evil.test:443  not allowed  2 times",
    ):
        assert words in text, text


def test_nothing_from_inside_reaches_the_terminal_as_it_is() -> None:
    started = replace(begun(), argv=(NASTY, NASTY))
    text = told(
        started,
        agent.AgentStarted(run=NASTY, runtime=NASTY, prompt=NASTY),
        agent.AgentMessage(run=NASTY, text=NASTY),
        agent.AgentToolUse(run=NASTY, call=NASTY, tool=NASTY, input={"command": NASTY}),
        agent.AgentApprovalRequested(run=NASTY, approval=NASTY, tool=NASTY, input={"path": NASTY}, reason=NASTY),
        agent.UserMessage(run=NASTY, text=NASTY, by=NASTY),
        network.NetworkAllowed(host=NASTY, port=1, method=NASTY, path=NASTY, error=NASTY),
        network.NetworkAsked(approval=NASTY, host=NASTY, port=1, method=NASTY, expires_at=clock.now()),
    )
    assert "gnp.exe" in text
    assert [char for char in text if not char.isprintable() and char != "\n"] == []


def test_a_moment_is_a_sequence_or_a_time() -> None:
    now = clock.now()
    assert moment("1204", "--at") == 1204
    assert moment("2026-01-31T12:30:00Z", "--at") == datetime.datetime(2026, 1, 31, 12, 30, tzinfo=datetime.UTC)
    ago = moment("-5m", "--at")
    assert isinstance(ago, datetime.datetime)
    assert now - ago < datetime.timedelta(minutes=5, seconds=1)
    today = moment("00:00:00", "--at")
    assert isinstance(today, datetime.datetime)
    assert (today.hour, today.date()) == (0, now.astimezone().date())
    local = moment("2026-01-31T12:30:00", "--at")
    assert isinstance(local, datetime.datetime)
    assert local.tzinfo is not None


@pytest.mark.parametrize("text", ["0", "", "-", "-5 parsecs", "25:00:00", "yesterday", "9" * 400 + "Z", "٣"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--at"):
        moment(text, "--at")
