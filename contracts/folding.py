"""All that is folded of one sandbox: what it was, what was said in it, what left it, after any of its events."""

from msgspec import Struct

from contracts import conversation, state, traffic
from contracts.codec import decode_fact
from contracts.conversation import Conversation
from contracts.errors import Invalid
from contracts.message import EventHead, Fact
from contracts.state import UNUSABLE, SandboxState
from contracts.traffic import Traffic


class Folded(Struct, frozen=True, kw_only=True):
    """As JSON and back it is the same."""

    sequence: int
    """Of the last event that is in it."""
    state: SandboxState
    conversation: Conversation = Conversation()
    traffic: Traffic = Traffic()


def apply(folded: Folded | None, sequence: int, head: EventHead) -> Folded | None:
    """One event of the sandbox further; None while there was no `sandbox.creating`.

    All of its events are wanted, output too. One that is in it already changes nothing; one that this version does not
    know, or cannot read, changes nothing but the cursors. Never raises.
    """
    if folded is not None and sequence <= folded.sequence:
        return folded
    try:
        return _moved(folded, sequence, head, _fact(head))
    except UNUSABLE:
        return _moved(folded, sequence, head, None)


def _moved(folded: Folded | None, sequence: int, head: EventHead, fact: Fact | None) -> Folded | None:
    known = state.apply_fact(None if folded is None else folded.state, sequence, head, fact)
    if known is None:
        return None
    said, passed = (Conversation(), Traffic()) if folded is None else (folded.conversation, folded.traffic)
    if fact is not None:
        said = conversation.apply(said, sequence, head, fact)
        passed = traffic.apply(passed, sequence, head, fact)
    return Folded(sequence=sequence, state=known, conversation=said, traffic=passed)


def _fact(head: EventHead) -> Fact | None:
    try:
        return decode_fact(head)
    except Invalid:
        return None
