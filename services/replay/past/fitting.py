"""An answer about the past that fits into one message: what is oldest in it makes room."""

from collections.abc import Iterator

from msgspec.structs import replace

from contracts import codec
from contracts.errors import Invalid
from contracts.past import StateAt
from services.replay.projection import PAGE_BYTES

KEPT_AT_LEAST = 100


def fitting(answer: StateAt) -> StateAt:
    """Raises `Invalid` for one that is too large whatever is left out of it."""
    for each in _smaller(answer):
        if len(codec.encode(each)) <= PAGE_BYTES:
            return each
    raise Invalid(f"the state of {answer.state.sandbox!r} is too large for an answer: read its events instead")


def _smaller(answer: StateAt) -> Iterator[StateAt]:
    yield answer
    while answer.conversation.lines:
        answer = _half_said(answer)
        yield answer
    while answer.traffic.requests:
        answer = _half_passed(answer)
        yield answer
    state = answer.state
    asked = replace(state.approvals, pending=state.approvals.pending[-KEPT_AT_LEAST:])
    running = dict(list(state.running.items())[-KEPT_AT_LEAST:])
    state = replace(state, recent=(), approvals=asked, running=running)
    yield replace(answer, state=state)
    yield replace(answer, state=replace(state, notes=(), enforcement={}))


def _half_said(answer: StateAt) -> StateAt:
    said = answer.conversation
    gone = (len(said.lines) + 1) // 2
    return replace(answer, conversation=replace(said, lines=said.lines[gone:], earlier=said.earlier + gone))


def _half_passed(answer: StateAt) -> StateAt:
    passed = answer.traffic
    gone = (len(passed.requests) + 1) // 2
    return replace(answer, traffic=replace(passed, requests=passed.requests[gone:], earlier=passed.earlier + gone))
