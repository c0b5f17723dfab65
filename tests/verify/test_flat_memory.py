"""A long log takes no more memory than a short one."""

import tracemalloc
from collections.abc import Iterator

from contracts.chain import Message
from contracts.ended import Ended
from contracts.message import Fact
from contracts.proof import RECENT, Fault, Proof
from contracts.verifying import Scope, Trust, Verifier
from infra.audit.signing import verify
from tests.contracts.histories import begun, completed, numbered, output
from tests.verify.logs import Log


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
