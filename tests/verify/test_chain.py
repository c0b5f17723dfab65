"""What `contracts.verifying` finds in a log that somebody has changed: each change at its sequence."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from contracts.chain import Fault, Message
from contracts.verifying import Scope, Trust
from infra.audit.signing import public_of
from tests.contracts.properties import calm as calm_
from tests.verify.logs import (
    ALL,
    KEY,
    LOG,
    NOBODY,
    OTHER,
    Log,
    changed,
    found,
    key_of,
    said_in,
    saying,
    signed,
    verdict_of,
    without,
)

SANDBOXES = ("a", "b", "c")
calm = settings(calm_, max_examples=25)


class Made(NamedTuple):
    log: Log
    events: tuple[int, ...]
    """Sequences that a checkpoint covers, without the checkpoints."""
    checkpoints: tuple[int, ...]


@st.composite
def made(draw: st.DrawFn) -> Made:
    """Two to five ranges of some events, in any of three sandboxes. Events come between a range and its checkpoint."""
    log = Log()
    events: list[int] = []
    checkpoints: list[int] = []
    for late in [*draw(st.lists(st.integers(0, 2), min_size=1, max_size=4)), 0]:
        for sandbox in draw(st.lists(st.sampled_from(SANDBOXES), min_size=3, max_size=6)):
            events.append(log.event(sandbox, draw(st.text(min_size=1, max_size=8))))
        checkpoints.append(log.checkpoint(leaves=late))
    return Made(log, tuple(events), tuple(checkpoints))


def flipped(draw: st.DataObject, message: Message) -> Message:
    """One bit of it is another."""
    field = draw.draw(st.sampled_from(["payload", "subject", "id", "stored_at"]), label="field")
    if field == "payload":
        raw = bytearray(message.payload)
        raw[draw.draw(st.integers(0, len(raw) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
        return message._replace(payload=bytes(raw))
    text = getattr(message, field)
    at = draw.draw(st.integers(0, len(text) - 1))
    other = text[:at] + chr(ord(text[at]) ^ 1 << draw.draw(st.integers(0, 6))) + text[at + 1 :]
    return message._replace(**{field: other})


def somebody(draw: st.DataObject, log: Made) -> Trust:
    """Who has only the log, or also its anchors, or also what the node keeps of its checkpoints."""
    kept = tuple(log.log.anchors)
    bare = tuple(each._replace(leaves=None) for each in kept)
    return Trust(anchors=draw.draw(st.sampled_from([(), bare, kept]), label="anchors"))


def first(messages: list[Message], scope: Scope = ALL, trust: Trust = NOBODY) -> tuple[int, str]:
    return found(messages, scope, trust)[0]


@calm
@given(made(), st.sampled_from([None, *SANDBOXES]))
def test_an_untouched_log_is_proven_to_its_last_checkpoint(log: Made, sandbox: str | None) -> None:
    messages = log.log.messages if sandbox is None else log.log.of(sandbox)
    verdict = verdict_of(messages, Scope(sandbox), Trust((public_of(KEY),), None, tuple(log.log.anchors)))
    assert verdict.findings == ()
    assert (verdict.proven_from, verdict.proven_to) == (1, log.checkpoints[-1] - 1)
    assert (verdict.checkpoints, verdict.unproven, verdict.anchors) == (len(log.checkpoints), 0, len(log.checkpoints))
    assert verdict.keys == (public_of(KEY),)


@calm
@given(made(), st.data())
def test_one_bit_of_an_event_is_found(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.events))
    messages = changed(log.log.messages, at, lambda message: flipped(draw, message))
    trust = somebody(draw, log)
    assert first(messages, trust=trust)[0] == at
    assert (at, Fault.CHANGED) in found(messages, trust=trust)


@calm
@given(made(), st.data())
def test_one_bit_of_a_sandboxs_event_is_found_without_the_other_sandboxes(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.events))
    sandbox = log.log.messages[at - 1].subject.split(".")[2]
    messages = changed(log.log.of(sandbox), at, lambda message: flipped(draw, message))
    trust = somebody(draw, log)
    assert first(messages, Scope(sandbox), trust)[0] == at
    assert (at, Fault.CHANGED) in found(messages, Scope(sandbox), trust)


@calm
@given(made(), st.data())
def test_one_bit_of_a_checkpoint_is_found(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.checkpoints[:-1]))
    messages = changed(log.log.messages, at, lambda message: flipped(draw, message))
    trust = somebody(draw, log)
    assert {each.sequence for each in found(messages, trust=trust)} == {at}
    assert (at, Fault.CHANGED) in found(messages, trust=trust)


@calm
@given(made(), st.data())
def test_a_removed_event_is_found(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.events))
    sandbox = log.log.messages[at - 1].subject.split(".")[2]
    trust = somebody(draw, log)
    assert found(without(log.log.messages, at), trust=trust) == [(at, Fault.MISSING)]
    assert found(without(log.log.of(sandbox), at), Scope(sandbox), trust) == [(at, Fault.MISSING)]


@calm
@given(made(), st.data())
def test_a_removed_event_is_found_when_the_others_have_moved_up(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.events))
    later = [m._replace(sequence=m.sequence - 1) if m.sequence > at else m for m in without(log.log.messages, at)]
    assert first(later, trust=somebody(draw, log))[0] == at


@calm
@given(made(), st.data())
def test_a_removed_checkpoint_is_found_and_what_it_proved_stays_proven(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.checkpoints[:-1]))
    verdict = verdict_of(without(log.log.messages, at), trust=somebody(draw, log))
    assert [(each.sequence, each.fault) for each in verdict.findings] == [(at, Fault.MISSING)]
    assert verdict.proven_to == log.checkpoints[-1] - 1


@calm
@given(made(), st.data())
def test_a_removed_checkpoint_breaks_the_proof_of_one_sandbox(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.checkpoints[:-1]))
    following = log.checkpoints[log.checkpoints.index(at) + 1]
    assert found(without(log.log.of("a"), at), Scope("a"), somebody(draw, log)) == [(following, Fault.BROKEN_CHAIN)]


@calm
@given(made(), st.data())
def test_an_inserted_event_is_found(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.events))
    messages = log.log.messages
    copied = messages[draw.draw(st.integers(0, len(messages) - 1))]._replace(sequence=at, id="another")
    moved = [m._replace(sequence=m.sequence + 1) for m in messages[at - 1 :]]
    trust = somebody(draw, log)
    assert first([*messages[: at - 1], copied, *moved], trust=trust)[0] == at
    assert first([*messages[: at - 1], copied, *messages[at - 1 :]], trust=trust)[0] == at
    assert found([*messages[:at], copied, *messages[at:]], trust=trust) == [(at, Fault.UNEXPECTED)]


@calm
@given(made(), st.data())
def test_two_swapped_events_are_found_at_the_first(log: Made, draw: st.DataObject) -> None:
    one, other = sorted(draw.draw(st.lists(st.sampled_from(log.events), min_size=2, max_size=2, unique=True)))
    messages, trust = list(log.log.messages), somebody(draw, log)
    left, right = messages[one - 1], messages[other - 1]
    messages[one - 1], messages[other - 1] = right._replace(sequence=one), left._replace(sequence=other)
    assert next(each for each in found(messages, trust=trust) if each.fault == Fault.CHANGED) == (one, Fault.CHANGED)
    messages[one - 1], messages[other - 1] = right, left
    assert first(messages, trust=trust)[0] == one


@calm
@given(made(), st.data())
def test_a_checkpoint_signed_by_another_key_is_found(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.checkpoints))
    messages = changed(log.log.messages, at, lambda message: saying(message, signed(said_in(message), OTHER)))
    trust = somebody(draw, log)._replace(keys=(public_of(KEY),))
    assert first(messages, trust=trust)[0] == at
    assert (at, Fault.UNKNOWN_KEY) in found(messages, trust=trust)


@calm
@given(made(), st.data())
def test_a_checkpoint_that_says_another_key_has_signed_it_is_found(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.checkpoints))
    claimed = lambda message: saying(message, replace(said_in(message), key=public_of(OTHER)))  # noqa: E731
    told = found(changed(log.log.messages, at, claimed), trust=somebody(draw, log))
    assert told[0] == (at, Fault.BAD_SIGNATURE)
    assert {each.sequence for each in told} == {at}


@calm
@given(made(), st.data())
def test_a_log_that_was_made_anew_by_another_key_is_found_by_the_key(log: Made, draw: st.DataObject) -> None:
    forged = Log(OTHER)
    for message in log.log.messages:
        if message.sequence in log.checkpoints:
            forged.checkpoint()
        else:
            forged.put(message.subject, message.payload)
    assert found(forged.messages) == []
    assert found(forged.messages, trust=Trust((public_of(KEY),))) == [(log.checkpoints[0], Fault.UNKNOWN_KEY)]
    assert first(forged.messages, trust=Trust(anchors=tuple(log.log.anchors)))[0] == log.checkpoints[0]


@calm
@given(made(), st.data())
def test_a_log_that_was_made_anew_by_the_same_key_is_found_by_anchors(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.events))
    forged, kept = Log(), iter(log.log.anchors)
    for message in log.log.messages:
        if message.sequence in log.checkpoints:
            forged.checkpoint(leaves=forged.last - next(kept).anchor.last_sequence)
        else:
            forged.put(message.subject, message.payload + (b" " if message.sequence == at else b""))
    assert found(forged.messages, trust=Trust((public_of(KEY),))) == []
    whole = tuple(log.log.anchors)
    assert first(forged.messages, trust=Trust(anchors=whole)) == (at, Fault.CHANGED)
    short = tuple(kept._replace(leaves=None) for kept in whole)
    covers = [kept.anchor.last_sequence >= at for kept in whole]
    covering = log.checkpoints[covers.index(True)]
    assert first(forged.messages, trust=Trust(anchors=short)) == (covering, Fault.WRONG_ANCHOR)


@calm
@given(made(), st.data(), st.booleans())
def test_a_cut_tail_is_found_by_anchors_at_the_first_sequence_that_is_gone(
    log: Made, draw: st.DataObject, leaves: bool
) -> None:
    last = draw.draw(st.integers(0, log.log.last - 1))
    kept = tuple(each if leaves else each._replace(leaves=None) for each in log.log.anchors)
    messages = log.log.messages[:last]
    assert found(messages, trust=Trust(anchors=kept)) == [(last + 1, Fault.TRUNCATED)]
    sandbox = [message for message in log.log.of("a") if message.sequence <= last]
    assert found(sandbox, Scope("a", last=last), Trust(anchors=kept)) == [(last + 1, Fault.TRUNCATED)]


@calm
@given(made(), st.data())
def test_sequences_that_were_used_again_after_a_cut_are_found_by_anchors(log: Made, draw: st.DataObject) -> None:
    last = draw.draw(st.integers(0, log.checkpoints[-1] - 2))
    messages = log.log.messages[:last]
    again = [message._replace(id="another") for message in log.log.messages[last:] if message.sequence in log.events]
    for sequence, message in enumerate(again, start=last + 1):
        messages.append(message._replace(sequence=sequence))
    assert first(messages, trust=Trust(anchors=tuple(log.log.anchors)))[0] == last + 1


@calm
@given(made(), st.data())
def test_a_repeated_checkpoint_is_found(log: Made, draw: st.DataObject) -> None:
    at = draw.draw(st.sampled_from(log.checkpoints))
    copied = log.log.messages[at - 1]._replace(sequence=log.log.last + 1)
    assert found([*log.log.messages, copied]) == [(log.log.last + 1, Fault.BROKEN_CHAIN)]


@calm
@given(made(), st.data())
def test_a_log_that_was_trimmed_is_proven_from_its_beginning_on(log: Made, draw: st.DataObject) -> None:
    for later in draw.draw(st.lists(st.sampled_from(SANDBOXES), max_size=3), label="tail"):
        log.log.event(later)
    start = draw.draw(st.integers(1, log.log.last + 1))
    sandbox = draw.draw(st.sampled_from([None, *SANDBOXES]))
    messages = log.log.messages if sandbox is None else log.log.of(sandbox)
    kept = [message for message in messages if message.sequence >= start]
    trust = Trust((public_of(KEY),), anchors=tuple(log.log.anchors))
    verdict = verdict_of(kept, Scope(sandbox, first=start, last=log.log.last), trust)
    assert verdict.findings == ()
    assert verdict.proven_from == (start if start <= log.checkpoints[-1] else 0)
    inside = [sequence for sequence in log.events if sequence >= start]
    if sandbox is None and inside:
        at = draw.draw(st.sampled_from(inside))
        gone = found(without(kept, at), Scope(first=start), trust)
        assert gone == [(at, Fault.MISSING)]
        other = changed(kept, at, lambda message: message._replace(id="another"))
        assert found(other, Scope(first=start), trust) == [(at, Fault.CHANGED)]


def short_log() -> Log:
    log = Log()
    for name in ("a", "b", "a"):
        log.event(name)
    log.checkpoint()
    log.event("b")
    log.checkpoint()
    return log


@pytest.mark.parametrize("leaves", [True, False])
def test_a_log_whose_limits_dropped_every_checkpoint_has_no_fault(leaves: bool) -> None:
    log = short_log()
    log.event("a")
    log.event("b")
    kept = tuple(each if leaves else each._replace(leaves=None) for each in log.anchors)
    for keys in ((), (public_of(KEY),)):
        for start in (7, 8, 9):
            rest = [message for message in log.messages if message.sequence >= start]
            verdict = verdict_of(rest, Scope(log=LOG, first=start, last=8), Trust(keys, None, kept))
            assert verdict.findings == (), start
            assert (verdict.proven_to, verdict.unproven) == (0, 9 - start)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_trimmed_log_that_lost_its_end_is_truncated(leaves: bool) -> None:
    log = short_log()
    kept = tuple(each if leaves else each._replace(leaves=None) for each in log.anchors)
    for start, last, end in ((5, 5, 6), (3, 3, 5), (5, 4, 5)):
        rest = [message for message in log.messages if start <= message.sequence <= last]
        verdict = verdict_of(rest, Scope(log=LOG, first=start, last=last), Trust((), None, kept))
        assert [(each.sequence, each.last, each.fault) for each in verdict.findings] == [
            (last + 1, end, Fault.TRUNCATED)
        ], start


def test_what_comes_after_the_last_checkpoint_is_not_proven_and_no_fault() -> None:
    log = short_log()
    log.event("a")
    verdict = verdict_of(log.messages)
    assert (verdict.findings, verdict.proven_to, verdict.unproven) == ((), 5, 1)


def test_a_hash_that_is_not_that_of_the_events_is_found() -> None:
    log = short_log()
    lied = lambda message: saying(message, signed(replace(said_in(message), hash="00" * 32), KEY))  # noqa: E731
    assert found(changed(log.messages, 6, lied)) == [(6, Fault.WRONG_HASH)]


def test_a_checkpoint_of_the_future_proves_nothing() -> None:
    log = short_log()
    lied = lambda message: saying(message, signed(replace(said_in(message), last_sequence=9), KEY))  # noqa: E731
    verdict = verdict_of(changed(log.messages, 6, lied))
    assert {(each.sequence, each.fault) for each in verdict.findings} == {(6, Fault.WRONG_HASH)}
    assert verdict.proven_to == 3


def test_a_checkpoint_of_another_log_is_none_of_this() -> None:
    log, other = short_log(), Log(name="another")
    other.event("a")
    other.event("a")
    other.checkpoint()
    alien = other.messages[-1]._replace(sequence=7)
    assert found([*log.messages, alien]) == [(7, Fault.BROKEN_CHAIN)]


def test_events_that_the_store_lost_are_told_whether_a_checkpoint_knows_of_it_or_not() -> None:
    log = short_log()
    log.lose(3)
    log.event("a")
    assert found(log.messages) == [(7, Fault.LOST)]
    log.checkpoint()
    verdict = verdict_of(log.messages)
    assert [(each.sequence, each.last, each.fault) for each in verdict.findings] == [(7, 9, Fault.LOST)]
    assert found(log.of("a"), Scope("a")) == [(7, Fault.LOST)]
    assert found(log.of("b"), Scope("b")) == []


def test_an_event_that_was_lost_and_is_there_all_the_same_is_unexpected() -> None:
    log = short_log()
    log.lose(1)
    log.event("a")
    log.checkpoint()
    filled = sorted([*log.messages, log.messages[0]._replace(sequence=7)])
    assert (7, Fault.UNEXPECTED) in found(filled)


def test_a_log_that_was_there_before_its_chain_is_proven_from_there_on() -> None:
    log = Log(first=4)
    log.event("a")
    log.checkpoint()
    before = [message._replace(sequence=message.sequence) for message in short_log().messages[:3]]
    verdict = verdict_of([*before, *log.messages])
    assert (verdict.findings, verdict.proven_from) == ((), 4)


def test_the_first_checkpoint_that_continues_one_which_is_gone_is_found() -> None:
    log = short_log()
    assert found(without(log.of("a"), 4), Scope("a")) == [(6, Fault.BROKEN_CHAIN)]


def test_a_rotation_ties_the_new_key_to_the_old_one_both_ways() -> None:
    log = short_log()
    log.rotate(OTHER)
    log.checkpoint()
    for trusted in ((), (public_of(KEY),), (public_of(OTHER),)):
        verdict = verdict_of(log.messages, trust=Trust(trusted))
        assert (verdict.findings, verdict.keys) == ((), (public_of(KEY), public_of(OTHER)))
    assert found(log.messages, trust=Trust((public_of(key_of("third")),)))[0] == (4, Fault.UNKNOWN_KEY)


def test_a_new_key_without_a_rotation_is_unknown() -> None:
    log = short_log()
    log.key = OTHER
    log.event("a")
    at = log.checkpoint()
    assert found(log.messages) == [(at, Fault.UNKNOWN_KEY)]


def test_a_rotation_that_the_old_key_has_not_signed_is_found() -> None:
    log = short_log()
    at = log.rotate(OTHER, by=key_of("third"))
    log.checkpoint()
    assert first(log.messages) == (at, Fault.BAD_SIGNATURE)


def test_a_key_that_was_replaced_signs_no_more() -> None:
    log = short_log()
    log.rotate(OTHER)
    log.checkpoint()
    log.key = KEY
    log.event("a")
    at = log.checkpoint()
    assert found(log.messages) == [(at, Fault.UNKNOWN_KEY)]


def test_a_key_that_was_lost_is_told_unless_somebody_gives_his_word_for_the_next() -> None:
    log = short_log()
    at = log.rotate(OTHER, lost=True)
    log.checkpoint()
    assert found(log.messages) == [(at, Fault.UNKNOWN_KEY)]
    assert found(log.messages, trust=Trust(own=public_of(OTHER))) == []
    assert found(log.messages, trust=Trust((public_of(KEY), public_of(OTHER)))) == []
    assert found(log.messages, trust=Trust((public_of(OTHER),))) == [(4, Fault.UNKNOWN_KEY)]


def test_nothing_is_proven_by_a_trusted_key_that_has_signed_nothing() -> None:
    log = Log()
    log.event("a")
    assert found(log.messages) == []
    assert found(log.messages, trust=Trust((public_of(KEY),))) == [(1, Fault.UNKNOWN_KEY)]


def test_anchors_of_another_log_do_not_pass_for_this_one() -> None:
    other = Log(name="another")
    other.event("a")
    other.checkpoint()
    assert found(short_log().messages, trust=Trust(anchors=tuple(other.anchors))) == [(1, Fault.WRONG_ANCHOR)]


def test_an_anchor_that_is_newer_than_an_export_is_no_fault() -> None:
    log = short_log()
    early = Scope(exported_at=log.anchors[0].anchor.time)
    verdict = verdict_of(log.messages[:4], early, Trust(anchors=tuple(log.anchors)))
    assert (verdict.findings, verdict.later, verdict.anchors) == ((), 5, 1)


def test_an_anchor_that_was_changed_is_told() -> None:
    log = short_log()
    kept = log.anchors[0]
    bad = kept._replace(anchor=replace(kept.anchor, hash="00" * 32))
    assert found(log.messages, trust=Trust(anchors=(bad, log.anchors[1]))) == [(4, Fault.WRONG_ANCHOR)]


def test_neighbours_with_the_same_fault_are_one_finding() -> None:
    log = Log()
    for _ in range(50):
        log.event("a")
    log.checkpoint()
    moved = [message._replace(id="x") if message.sequence > 10 else message for message in log.messages[:-1]]
    (finding,) = verdict_of([*moved, log.messages[-1]]).findings
    assert (finding.sequence, finding.last, finding.fault) == (11, 50, Fault.CHANGED)


def test_a_jump_over_more_sequences_than_memory_could_hold_costs_nothing() -> None:
    log = short_log()
    far = log.messages[0]._replace(sequence=2**50)
    verdict = verdict_of([*log.messages, far])
    assert [(each.sequence, each.last) for each in verdict.findings] == [(7, 2**50 - 1)]


@pytest.mark.parametrize(
    "payload", [b"", b"nonsense", b"[" * 100_000, b'{"type":"audit.checkpoint","data":{}}', b"\xff"]
)
def test_a_checkpoint_that_is_none_is_told(payload: bytes) -> None:
    log = short_log()
    messages = changed(log.messages, 4, lambda message: message._replace(payload=payload))
    assert first(messages)[0] == 4
    assert (4, Fault.CHANGED) in found(messages)


def test_an_event_that_is_gone_together_with_its_checkpoint_is_told() -> None:
    log = short_log()
    assert found(without(log.messages, 2, 4)) == [(2, Fault.LOST), (4, Fault.MISSING), (6, Fault.BROKEN_CHAIN)]
    assert (2, Fault.MISSING) in found(without(log.messages, 2, 4), trust=Trust(anchors=tuple(log.anchors)))
