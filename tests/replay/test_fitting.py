"""An answer about the past fits into one message, whatever was said."""

import msgspec
import pytest

from contracts import codec
from contracts.approvals import Approvals, Ask
from contracts.conversation import Conversation, Line
from contracts.errors import Invalid
from contracts.past import StateAt
from contracts.spec import SandboxSpec
from contracts.state import CommandState, SandboxState, fold
from contracts.traffic import Request, Traffic
from services.replay.past.fitting import fitting
from services.replay.projection import PAGE_BYTES
from tests.contracts.histories import CREATED, CREATING, STARTED, numbered, time_of

COSTLY = "\x01" * 2000
"""Six bytes each as JSON."""
LINE = Line(sequence=1, at=time_of(1), run="r", kind="message", who="agent", text=COSTLY)
REQUEST = Request(sequence=1, at=time_of(1), allowed=True, host=COSTLY, port=1, method="GET")


def answer(state: SandboxState, lines: int = 0, requests: int = 0) -> StateAt:
    return StateAt(
        sequence=9,
        time=time_of(1),
        state=state,
        conversation=Conversation(lines=(LINE,) * lines, earlier=7),
        traffic=Traffic(requests=(REQUEST,) * requests, earlier=3),
    )


@pytest.fixture
def state() -> SandboxState:
    found = fold(numbered([CREATING, CREATED, STARTED]))
    assert found is not None
    return found


def test_what_fits_is_left_alone(state: SandboxState) -> None:
    told = answer(state, 10, 10)
    assert fitting(told) is told


def test_the_oldest_of_the_conversation_makes_room_first_and_is_counted(state: SandboxState) -> None:
    told = fitting(answer(state, 200, 5))
    assert len(codec.encode(told)) <= PAGE_BYTES
    assert (len(told.conversation.lines), told.conversation.earlier) == (50, 157)
    assert (len(told.traffic.requests), told.traffic.earlier) == (5, 3)


def test_then_the_oldest_of_the_network(state: SandboxState) -> None:
    told = fitting(answer(state, 200, 200))
    assert len(codec.encode(told)) <= PAGE_BYTES
    assert (told.conversation.lines, told.conversation.earlier) == ((), 207)
    assert len(told.traffic.requests) + told.traffic.earlier == 203


def test_then_the_commands_that_ended_and_the_oldest_that_run(state: SandboxState) -> None:
    running = {f"e{number}": CommandState(exec=f"e{number}", argv=("x" * 500,)) for number in range(4000)}
    ask = Ask(approval="a", host="h" * 250, port=1, method="GET", asked_at=time_of(1), expires_at=time_of(2))
    busy = msgspec.structs.replace(state, running=running, approvals=Approvals(pending=(ask,) * 900))
    told = fitting(answer(busy, 5, 5))
    assert len(codec.encode(told)) <= PAGE_BYTES
    assert list(told.state.running) == [f"e{number}" for number in range(3900, 4000)]
    assert len(told.state.approvals.pending) == 100


def test_what_cannot_be_made_to_fit_is_refused(state: SandboxState) -> None:
    huge = msgspec.structs.replace(state, spec=SandboxSpec(labels={"x": "y" * 800_000}))
    with pytest.raises(Invalid, match="too large for an answer"):
        fitting(answer(huge))
