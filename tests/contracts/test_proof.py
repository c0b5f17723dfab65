from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from contracts.errors import Failure
from contracts.events import command
from contracts.message import Fact
from contracts.payload import Encoding
from contracts.proof import Fault, Proof, Summary
from tests.contracts.histories import CREATING, begun, completed, numbered, output, raw_head, typed
from tests.contracts.properties import calm

ERR = command.Stream.STDERR
FAILURE = Failure(code="INVALID", message="no")


class Found(NamedTuple):
    sequence: int
    fault: Fault


def prove(facts: list[Fact]) -> Summary:
    proof = Proof()
    for sequence, head in numbered(facts):
        proof.feed(sequence, head)
    return proof.summary()


def found(facts: list[Fact]) -> list[Found]:
    return [Found(finding.sequence, finding.fault) for finding in prove(facts).findings]


def right() -> list[Fact]:
    """Sequences 1 to 10: one command with all streams, two mingled with it."""
    return [
        CREATING,
        begun(),
        typed(b"in", 0),
        output(b"one", 0),
        begun("y"),
        output("zwö".encode(), 3),
        output(b"\xff\xfe", 0, ERR),
        output(b"y", 0, exec_id="y"),
        completed(stdin=2, stdout=7, stderr=2),
        completed("y", stdout=1),
    ]


def changed(at: int, **fields: object) -> list[Fact]:
    facts = right()
    facts[at - 1] = replace(facts[at - 1], **fields)
    return facts


def without(at: int) -> list[Fact]:
    facts = right()
    del facts[at - 1]
    return facts


def inserted(at: int, fact: Fact) -> list[Fact]:
    facts = right()
    facts.insert(at - 1, fact)
    return facts


def swapped(one: int, other: int) -> list[Fact]:
    facts = right()
    facts[one - 1], facts[other - 1] = facts[other - 1], facts[one - 1]
    return facts


def test_a_right_history_is_clean() -> None:
    assert prove(right()) == Summary(events=10, commands=2, ended=2, open=(), bytes=12, findings=())


def test_a_running_command_is_open_and_no_fault() -> None:
    summary = prove([begun(), output(b"one", 0), begun("y"), completed("y")])
    assert (summary.commands, summary.ended, summary.open, summary.findings) == (2, 1, ("x",), ())


def test_a_rejected_command_is_clean_without_a_start() -> None:
    summary = prove([command.CommandRejected(exec="x", failure=FAILURE, cause="c")])
    assert (summary.commands, summary.ended, summary.findings) == (1, 1, ())


def test_a_lost_command_is_clean_when_the_log_has_what_it_says() -> None:
    lost = command.CommandLost(exec="x", cause="c", detail="d", totals=command.Totals(stdout=3))
    assert prove([begun(), output(b"one", 0), lost]).findings == ()


def test_output_of_a_background_process_after_the_end_is_clean() -> None:
    assert found([*right(), output(b"late", 7, after_exit=True)]) == []


def test_the_same_exec_in_two_sandboxes_is_two_commands() -> None:
    proof = Proof()
    for sandbox in ("a", "b"):
        for sequence, head in numbered([begun(), completed()]):
            proof.feed(sequence, replace(head, sandboxid=sandbox))
    summary = proof.summary()
    assert (summary.commands, summary.findings) == (2, ())


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        pytest.param(lambda: without(2), [(2, Fault.NOT_STARTED)], id="start missing"),
        pytest.param(lambda: inserted(3, begun()), [(3, Fault.STARTED_TWICE)], id="started twice"),
        pytest.param(lambda: without(4), [(5, Fault.BYTES_MISSING)], id="first chunk missing"),
        pytest.param(lambda: without(6), [(8, Fault.WRONG_TOTAL)], id="last chunk missing"),
        pytest.param(lambda: without(3), [(8, Fault.WRONG_TOTAL)], id="input missing"),
        pytest.param(lambda: inserted(6, right()[3]), [(6, Fault.BYTES_TWICE)], id="chunk twice"),
        pytest.param(
            lambda: swapped(4, 6),
            [(4, Fault.BYTES_MISSING), (6, Fault.BYTES_TWICE), (9, Fault.WRONG_TOTAL)],
            id="chunks swapped",
        ),
        pytest.param(lambda: changed(6, offset=2), [(6, Fault.BYTES_TWICE), (9, Fault.WRONG_TOTAL)], id="overlap"),
        pytest.param(lambda: changed(6, size=5), [(6, Fault.WRONG_SIZE)], id="wrong size"),
        pytest.param(lambda: changed(6, size=-1), [(6, Fault.WRONG_SIZE)], id="negative size"),
        pytest.param(lambda: changed(7, data="!"), [(7, Fault.UNREADABLE)], id="not base64"),
        pytest.param(lambda: changed(7, data="ééé"), [(7, Fault.UNREADABLE)], id="not even ASCII"),
        pytest.param(lambda: changed(4, encoding=Encoding.BASE64), [(4, Fault.UNREADABLE)], id="wrong encoding"),
        pytest.param(lambda: changed(9, totals=command.Totals()), [(9, Fault.WRONG_TOTAL)] * 3, id="no totals"),
        pytest.param(
            lambda: changed(9, totals=command.Totals(stdin=2, stdout=7, stderr=3)),
            [(9, Fault.WRONG_TOTAL)],
            id="wrong total",
        ),
        pytest.param(
            lambda: changed(9, totals=command.Totals(stdin=2, stdout=7, stderr=2, pty=1)),
            [(9, Fault.WRONG_TOTAL)],
            id="total of a stream that never was",
        ),
        pytest.param(lambda: inserted(10, right()[8]), [(10, Fault.ENDED_TWICE)], id="ended twice"),
        pytest.param(
            lambda: inserted(10, command.CommandRejected(exec="x", failure=FAILURE, cause="c")),
            [(10, Fault.ENDED_TWICE)],
            id="rejected after its end",
        ),
        pytest.param(lambda: inserted(10, output(b"!", 7)), [(10, Fault.OUTPUT_AFTER_END)], id="output after the end"),
    ],
)
def test_each_fault_is_found_at_its_sequence(broken: Callable[[], list[Fact]], expected: list[Found]) -> None:
    got = found(broken())
    assert got[: len(expected)] == expected
    assert {fault for _, fault in got} == {fault for _, fault in expected}


def test_an_end_without_a_start_is_found() -> None:
    assert found([completed()]) == [(1, Fault.NOT_STARTED)]


def test_an_event_whose_data_cannot_be_read_is_a_finding() -> None:
    proof = Proof()
    proof.feed(5, raw_head(5, "command.output", b'{"exec":7}'))
    proof.feed(6, raw_head(6, "command.completed", b"nonsense"))
    assert [(finding.sequence, finding.fault) for finding in proof.summary().findings] == [
        (5, Fault.UNREADABLE),
        (6, Fault.UNREADABLE),
    ]


def test_unknown_tags_and_other_families_are_counted_and_passed_over() -> None:
    proof = Proof()
    proof.feed(1, raw_head(1, "command.output2", b'{"exec":"x"}'))
    proof.feed(2, raw_head(2, "file.created", b"not even read"))
    assert proof.summary() == Summary(events=2, commands=0, ended=0, open=(), bytes=0, findings=())


STREAMS = st.sampled_from([command.Stream.STDOUT, command.Stream.STDERR, command.Stream.PTY])
CHUNKS = st.lists(st.tuples(STREAMS, st.binary(min_size=1, max_size=40)), min_size=1, max_size=15)


def chunked(chunks: list[tuple[command.Stream, bytes]]) -> list[Fact]:
    """A command that wrote these chunks in this order, with right offsets and totals."""
    facts: list[Fact] = [begun()]
    written: dict[str, int] = {}
    for stream, raw in chunks:
        facts.append(output(raw, written.get(stream.value, 0), stream))
        written[stream.value] = written.get(stream.value, 0) + len(raw)
    return [*facts, completed("x", **written)]


@calm
@given(CHUNKS)
def test_any_bytes_in_any_chunks_verify(chunks: list[tuple[command.Stream, bytes]]) -> None:
    summary = prove(chunked(chunks))
    assert (summary.findings, summary.open) == ((), ())
    assert summary.bytes == sum(len(raw) for _, raw in chunks)


def _mutate(draw: st.DataObject, facts: list[Fact]) -> list[Fact]:
    at = draw.draw(st.integers(1, len(facts) - 2), label="chunk")
    chunk = facts[at]
    assert isinstance(chunk, command.CommandOutput)
    cut = output(b"", 0)
    match draw.draw(st.sampled_from(["drop", "twice", "swap", "resize", "shift", "empty", "again"])):
        case "drop":
            return [*facts[:at], *facts[at + 1 :]]
        case "twice":
            return [*facts[: at + 1], *facts[at:]]
        case "swap":
            same = [fact for fact in facts if getattr(fact, "stream", None) == chunk.stream and fact is not chunk]
            other = draw.draw(st.sampled_from(same or [begun()]))
            swap = {id(chunk): other, id(other): chunk}
            return [swap.get(id(fact), fact) for fact in facts]
        case "resize":
            return [*facts[:at], replace(chunk, size=chunk.size + draw.draw(st.integers(1, 9))), *facts[at + 1 :]]
        case "shift":
            return [*facts[:at], replace(chunk, offset=chunk.offset + draw.draw(st.integers(1, 9))), *facts[at + 1 :]]
        case "empty":
            return [*facts[:at], replace(chunk, data=cut.data, encoding=cut.encoding), *facts[at + 1 :]]
        case _:
            return [*facts, facts[-1]]


@calm
@given(CHUNKS, st.data())
def test_any_single_mutation_is_found(chunks: list[tuple[command.Stream, bytes]], data: st.DataObject) -> None:
    assert prove(_mutate(data, chunked(chunks))).findings


def found_in_part(facts: list[Fact]) -> list[Found]:
    proof = Proof(partial=True)
    for sequence, head in numbered(facts):
        proof.feed(sequence, head)
    return [Found(finding.sequence, finding.fault) for finding in proof.summary().findings]


def test_a_command_that_began_before_the_record_is_taken_from_where_it_is() -> None:
    assert found_in_part([output(b"one", 7), typed(b"in", 2), output(b"two", 10), completed(stdin=4, stdout=13)]) == []
    assert found_in_part([completed(stdout=13)]) == []
    assert found_in_part([output(b"one", 7), output(b"two", 11)]) == [(2, Fault.BYTES_MISSING)]
    assert found_in_part([output(b"one", 7), completed(stdout=13)]) == [(2, Fault.WRONG_TOTAL)]


def test_a_command_that_began_within_a_part_of_the_record_is_proven_as_ever() -> None:
    assert found_in_part([begun(), output(b"one", 7)]) == [(2, Fault.BYTES_MISSING)]
    assert found_in_part([begun(), completed(stdout=3)]) == [(2, Fault.WRONG_TOTAL)]
    assert found_in_part([begun(), completed(), completed()]) == [(3, Fault.ENDED_TWICE)]
