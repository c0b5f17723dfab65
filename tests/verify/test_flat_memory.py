"""A long log takes no more memory than a short one."""

import random
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from contracts.anchoring import Anchors, Kept
from contracts.audits import Anchor
from contracts.chain import Message
from contracts.ended import Ended
from contracts.message import Fact
from contracts.proof import RECENT, Fault, Proof
from contracts.verifying import Scope, Trust, Verifier
from infra.audit.record import FILE, Record
from infra.audit.record import Kept as Recorded
from infra.audit.signing import verify
from infra.bus.reader import Bounds
from infra.verify import anchors
from services.replay.audit.checking import KeptOutside
from tests.contracts.histories import begun, completed, numbered, output
from tests.verify.logs import LOG, Log, said_in, time_of


def test_what_has_ended_is_known_by_a_few_bytes_each() -> None:
    ended = Ended()
    tracemalloc.start()
    for number in range(10_000):
        ended.add(("sandbox", f"exec-{number}"))
        ended.add(("sandbox", f"exec-{number}"))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(ended) == 10_000
    assert all(("sandbox", f"exec-{number}") in ended for number in range(10_000))
    assert not any(("other", f"exec-{number}") in ended for number in range(10_000))
    assert held < 10_000 * 24


def test_a_command_that_ended_long_ago_does_not_end_or_start_again() -> None:
    proof = Proof()
    sequence = 0
    for number in range(RECENT + 2):
        for fact in (begun(f"x{number}"), completed(f"x{number}")):
            sequence += 1
            proof.feed(sequence, next(iter(numbered([fact])))[1])
    assert proof.summary().findings == ()
    late: list[Fact] = [
        completed("x0"),
        begun("x1"),
        output(b"!", 0, exec_id="x0"),
        output(b"?", 7, exec_id="x0", after_exit=True),
    ]
    for each in late:
        proof.feed(sequence := sequence + 1, next(iter(numbered([each])))[1])
    faults = [finding.fault for finding in proof.summary().findings]
    assert faults == [Fault.ENDED_TWICE, Fault.STARTED_TWICE, Fault.OUTPUT_AFTER_END]
    assert proof.summary().commands == proof.summary().ended == RECENT + 2


def test_findings_without_end_are_counted_and_not_kept() -> None:
    proof = Proof()
    for _ in range(1500):
        proof.feed(1, next(iter(numbered([completed("x")])))[1])
    summary = proof.summary()
    assert (len(summary.findings), summary.more) == (1000, 500)


def endless(events: int) -> Iterator[Message]:
    """Nothing of it is held by whoever makes it."""
    log = Log()
    for number in range(events):
        log.event("a", f"{number:0200}")
        if number % 500 == 499:
            log.checkpoint()
            yield from log.messages[:-1]
            del log.messages[:-1]
    yield from log.messages


def test_what_is_held_of_a_log_ends_with_the_next_checkpoint() -> None:
    verifier = Verifier(verify, Scope(), Trust())
    held: list[int] = []
    tracemalloc.start()
    for message in endless(6000):
        verifier.feed(message)
        if message.sequence % 2000 == 0:
            held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert verifier.finish().findings == ()
    assert held[2] - held[0] < 300_000


MANY = 10_000


def of_many(place: Path, *, shuffled: bool) -> Path:
    """Anchors of 10 sequences each, some 600 bytes long; whoever signed them."""
    log = Log()
    log.event("a")
    log.checkpoint()
    like, numbers = log.anchors[0].anchor, list(range(MANY))
    if shuffled:
        random.Random(3).shuffle(numbers)
    with place.open("wb") as file:
        for number in numbers:
            said: Anchor = replace(like, first_sequence=number * 10 + 1, last_sequence=number * 10 + 10)
            file.write(msgspec.json.encode(said) + b"\n")
    return place


def lasts(kept: Iterable[Kept]) -> Iterator[int]:
    return (each.anchor.last_sequence for each in kept)


@pytest.mark.parametrize(("shuffled", "each_bytes"), [(False, 0), (True, 8)])
def test_anchors_stay_in_their_file(tmp_path: Path, shuffled: bool, each_bytes: int) -> None:
    file = of_many(tmp_path / "anchors", shuffled=shuffled)
    tracemalloc.start()
    kept = Anchors([anchors.read(file)])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    assert all(last == 10 * number for number, last in enumerate(lasts(kept.up_to(MANY * 10, LOG)), start=1))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < MANY * each_bytes * 1.2 + 50_000
    assert most < MANY * each_bytes * 1.2 + 150_000
    assert next(kept.rest(LOG), None) is None


def test_the_record_of_a_node_stays_in_its_file_while_its_log_is_checked(tmp_path: Path) -> None:
    log = Log()
    log.event("a")
    like = said_in(log.messages[log.checkpoint() - 1])
    with (tmp_path / FILE).open("wb") as file:
        for number in range(MANY):
            said = replace(like, first_sequence=number * 10 + 1, last_sequence=number * 10 + 10, hash=f"h{number}")
            at = number * 10 + 11
            file.write(msgspec.json.encode(Recorded(sequence=at, time=time_of(at), checkpoint=said)) + b"\n")
    record = Record(tmp_path)
    tracemalloc.start()
    outside = KeptOutside(record, LOG, Bounds(first=0, last=MANY * 10))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < MANY * 8 * 1.2 + 50_000
    assert list(lasts(outside)) == list(range(10, MANY * 10, 10)), "the last one was stored after the log's end"
    # It goes on where it was, though the log drops its beginning meanwhile.
    coming = iter(outside)
    assert next(coming).anchor.last_sequence == 10
    assert record.trim(MANY * 8)
    following = next(coming)
    assert following.anchor.last_sequence == MANY * 8 - 10, "the newest that the next one continues"
    assert following.leaves is not None
    assert following.leaves() == like.leaves
    assert list(lasts(coming)) == list(range(MANY * 8, MANY * 10, 10))


def test_anchors_of_a_log_are_held_one_at_a_time(tmp_path: Path) -> None:
    made = Log()
    for number in range(6000):
        made.event("a", f"{number:0200}")
        if number % 500 == 499:
            made.checkpoint()
    file = tmp_path / "anchors"
    file.write_bytes(b"".join(msgspec.json.encode(kept.anchor) + b"\n" for kept in made.anchors))
    verifier = Verifier(verify, Scope(), Trust(anchors=(anchors.read(file), anchors.read(file))))
    for message in endless(6000):
        verifier.feed(message)
    verdict = verifier.finish()
    assert (verdict.findings, verdict.checkpoints, verdict.anchors) == ((), 12, 24)
