"""Logs, exports and anchors by somebody who wants them to pass, or wants whoever verifies them to crash or choke."""

import itertools
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from contracts import chain
from contracts.anchoring import Kept
from contracts.audits import Anchor
from contracts.chain import MOST_GAPS, Fault, Message
from contracts.codec import encode
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint, AuditDamaged
from contracts.events.command import Totals
from contracts.findings import MOST_CHARACTERS
from contracts.payload import Encoding
from contracts.subjects import NO_SANDBOX, checkpoints
from contracts.verifying import Scope, Trust
from infra.audit.signing import public_of, sign, verify
from infra.verify import anchors
from tests.contracts.histories import begun, completed, output
from tests.verify.files import found_in, lines_of, verdict_on
from tests.verify.logs import KEY, OTHER, Log, changed, found, key_of, said_in, saying, signed, stored, verdict_of

STOLEN = KEY
NUMBERS = (-(2**70), -1, 0, 7, 2**63, 2**64, 10**4000)


def short_log() -> Log:
    log = Log()
    for name in ("a", "b", "a"):
        log.event(name)
    log.checkpoint()
    log.event("b")
    log.checkpoint()
    return log


def forged(message: Message) -> Message:
    return message._replace(payload=b'{"data":{"text":"forged"}}')


def lying(at: int, **said: object) -> list[Message]:
    """A log whose checkpoint there says something else, under a signature that is right."""
    lie = lambda message: saying(message, signed(replace(said_in(message), **said), KEY))  # noqa: E731
    return changed(short_log().messages, at, lie)


@pytest.mark.parametrize("sandbox", [None, "a"])
def test_a_checkpoint_of_impossible_numbers_is_told_and_nothing_else_happens(sandbox: str | None) -> None:
    for first, last in itertools.product(NUMBERS, NUMBERS):
        for said in (lying(6, missing=((first, last),)), lying(6, first_sequence=first, last_sequence=last)):
            assert {each.sequence for each in found(said, Scope(sandbox))} == {6}


def test_an_anchor_of_impossible_numbers_is_told_and_nothing_else_happens() -> None:
    log = short_log()
    for first, last in itertools.product(NUMBERS, NUMBERS):
        for said in ({"missing": ((first, last),)}, {"first_sequence": first, "missing": ((first, last),)}):
            lied: Anchor = replace(log.anchors[1].anchor, **said)
            kept = Kept(replace(lied, signature=sign(KEY, chain.statement(lied))))
            for messages in (log.messages, log.messages[:5]):
                assert found(messages, trust=Trust(anchors=(kept,)))


def test_a_command_of_impossible_numbers_is_told_and_nothing_else_happens() -> None:
    log, most = Log(), 10**4300 - 1
    log.fact("a", begun("x"))
    for encoding in (Encoding.UTF8, Encoding.BASE64):
        log.fact("a", replace(output(b"?", most, exec_id="x"), size=most, encoding=encoding))
    log.fact("a", replace(completed("x"), totals=Totals(stdout=most)))
    assert {finding.sequence for finding in verdict_of(log.messages).findings} == {2, 3, 4}


def test_an_event_of_another_command_than_its_subject_says_is_told() -> None:
    log = Log()
    log.fact("a", begun("x"))
    log.messages[0] = log.messages[0]._replace(subject="cloche.log.a.command.started.y")
    assert found(log.messages) == [(1, "unreadable")]


def test_a_stolen_key_that_was_replaced_cannot_name_another_one() -> None:
    log = short_log()
    log.rotate(OTHER)
    log.checkpoint()
    log.key = STOLEN
    at = log.rotate(key_of("thief"))
    log.event("a")
    signed_by_thief = log.checkpoint()
    for trusted in (OTHER, KEY):
        told = found(log.messages, trust=Trust((public_of(trusted),)))
        assert told == [(at, Fault.UNKNOWN_KEY), (signed_by_thief, Fault.UNKNOWN_KEY)]


def test_a_stolen_key_is_not_made_good_by_being_replaced_again() -> None:
    log = short_log()
    log.rotate(OTHER)
    log.checkpoint()
    log.key = STOLEN
    log.event("a")
    at = log.checkpoint()
    log.rotate(OTHER)
    assert at in [each.sequence for each in found(log.messages, trust=Trust((public_of(OTHER),)))]


def test_a_key_has_one_spelling() -> None:
    key, said = public_of(KEY), b"statement"
    assert verify(key, said, sign(KEY, said))
    assert not verify(key.upper(), said, sign(KEY, said))
    assert not verify(key + " " * 1000, said, sign(KEY, said))


@pytest.mark.parametrize("sandbox", [None, "a"])
def test_events_outside_of_what_an_export_says_that_it_is_of_do_not_pass(tmp_path: Path, sandbox: str | None) -> None:
    log = short_log()
    log.event("a")
    messages = log.messages if sandbox is None else log.of(sandbox)
    before = lines_of(changed(messages, 1, forged), sandbox=sandbox, first=2)
    assert found_in(tmp_path / "before", before) == [(1, Fault.UNEXPECTED)]
    after = lines_of(changed(messages, 3, forged), sandbox=sandbox, last=2)
    assert (3, Fault.UNEXPECTED) in found_in(tmp_path / "after", after)


@pytest.mark.parametrize(("first", "last"), [(1, 0), (1, -1), (5, 4), (2**60, 6)])
def test_an_export_of_nothing_is_none(tmp_path: Path, first: int, last: int) -> None:
    with pytest.raises(Invalid, match="an export of nothing"):
        found_in(tmp_path / "export", lines_of(short_log().messages, first=first, last=last))


def test_what_is_told_of_a_fault_is_short_however_much_a_message_claims() -> None:
    log, much = Log(), "x" * 1_000_000
    for said in (
        {"type": much, "data": begun("x")},
        {"type": "command.started", "data": begun(much)},
    ):
        log.put("cloche.log.a.command.started.x", encode(said))
        log.event("a")
    damaged = AuditDamaged(first_sequence=1, last_sequence=1, fault=much, detail=much, found=much)
    log.fact(NO_SANDBOX, damaged)
    tracemalloc.start()
    findings = verdict_of(log.messages).findings
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [finding.sequence for finding in findings] == [1, 1, 3]
    assert all(len(finding.fault) + len(finding.detail) <= 2 * MOST_CHARACTERS for finding in findings)
    assert held < 500_000


def test_of_more_losses_than_are_kept_none_is_passed_over_in_silence() -> None:
    log = Log()
    log.event("a")
    for _ in range(MOST_GAPS + 5):
        log.lose(1)
        log.event("b")
        log.checkpoint()
    log.lose(1)
    lost = log.last
    log.event("a")
    log.checkpoint()
    last = verdict_of(log.of("a"), Scope("a")).findings[-1]
    assert (last.fault, last.sequence <= lost <= last.last) == (Fault.LOST, True)
    assert verdict_of(log.of("c"), Scope("c")).findings == ()


def test_checkpoints_that_were_left_out_of_an_export_are_found_by_anchors(tmp_path: Path) -> None:
    log = Log()
    for _ in range(3):
        log.event("a")
        log.event("b")
        log.checkpoint()
    log.event("b")
    log.checkpoint()
    assert (log.last, len(log.anchors)) == (11, 4)
    whole = lines_of(log.of("a"), sandbox="a", last=7)
    bare = tuple(kept._replace(leaves=None) for kept in log.anchors)
    for kept in (bare, tuple(log.anchors)):
        assert found_in(tmp_path / "whole", whole, Trust(anchors=kept)) == []
    left = [forged(each) if each.sequence == 7 else each for each in log.of("a") if each.sequence not in (6, 9, 11)]
    assert found_in(tmp_path / "left", lines_of(left, sandbox="a", last=7)) == []
    told = found_in(tmp_path / "left", lines_of(left, sandbox="a", last=7), Trust(anchors=bare))
    assert told == [(3, Fault.BROKEN_CHAIN), (6, Fault.BROKEN_CHAIN)]
    told = found_in(tmp_path / "left", lines_of(left, sandbox="a", last=7), Trust(anchors=tuple(log.anchors)))
    assert (7, Fault.CHANGED) in told


def test_a_session_without_its_beginning_is_not_said_to_have_it(tmp_path: Path) -> None:
    log = Log()
    log.put("cloche.log.a.sandbox.creating", b"{}")
    log.event("a")
    log.checkpoint()
    assert verdict_on(tmp_path / "whole", lines_of(log.of("a"), sandbox="a")).from_beginning
    later = verdict_on(tmp_path / "later", lines_of(log.of("a")[1:], sandbox="a", first=2))
    assert (later.findings, later.from_beginning) == ((), False)


def test_a_file_of_anchors_that_has_none_left_is_no_file_of_anchors(tmp_path: Path) -> None:
    (tmp_path / "anchors").touch()
    with pytest.raises(Invalid, match="no anchor"):
        anchors.read(tmp_path / "anchors")


def test_checkpoints_of_the_future_are_looked_at_once() -> None:
    log = short_log()
    said = signed(replace(said_in(log.messages[3]), last_sequence=2**40), KEY)
    verdict = verdict_of([*log.messages, *(stored_at(said, at) for at in range(7, 17))])
    assert {finding.fault for finding in verdict.findings} == {Fault.WRONG_HASH}
    assert verdict.proven_to == 5


def stored_at(said: AuditCheckpoint, at: int) -> Message:
    return saying(stored(at, checkpoints(), b""), said)


def test_the_verdict_on_a_hostile_export_can_be_written_down(tmp_path: Path) -> None:
    damaged = AuditDamaged(first_sequence=1, last_sequence=10**4000, fault="lost", detail="", found="")
    log = short_log()
    log.fact(NO_SANDBOX, damaged)
    assert msgspec.json.encode(verdict_on(tmp_path / "export", lines_of(log.messages)))
