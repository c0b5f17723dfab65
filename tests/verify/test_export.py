"""An export, held against its own proof, without a server."""

from pathlib import Path

import pytest

from contracts import exports
from contracts.chain import Fault
from contracts.errors import Invalid
from contracts.exports import End
from contracts.verifying import Trust
from infra.audit.signing import public_of
from tests.contracts.histories import CREATING, begun, completed, output
from tests.verify.files import created, found_in, lines_of, manifest_of, pieces, sha256, verdict_on, with_files, written
from tests.verify.logs import KEY, Log


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def with_commands() -> Log:
    """Sequences 1 to 8: one sandbox with a command, and another that has nothing to do with it; 9 comes after."""
    log = Log()
    log.fact("a", CREATING)
    log.fact("a", begun())
    log.event("b")
    log.fact("a", output(b"one", 0))
    log.checkpoint()
    log.fact("a", completed(stdout=3))
    log.event("b")
    log.checkpoint()
    return log


@pytest.mark.parametrize("name", ["session.jsonl", "session.jsonl.gz"])
def test_a_whole_log_is_verified_from_its_file(tmp_path: Path, name: str) -> None:
    log, blobs = with_files()
    verdict = verdict_on(tmp_path / name, lines_of(log.messages, blobs), Trust((public_of(KEY),)))
    assert verdict.findings == ()
    assert (verdict.proven_to, verdict.contents, verdict.trusted, verdict.events) == (3, 4, True, 4)


def test_one_sandbox_is_verified_with_the_checkpoints_that_cover_it(file: Path) -> None:
    log = with_commands()
    lines = lines_of(log.of("a"), sandbox="a", last=6)
    verdict = verdict_on(file, lines, Trust((public_of(KEY),)))
    assert (verdict.findings, verdict.commands, verdict.ended, verdict.bytes) == ((), 1, 1, 3)
    assert (verdict.proven_from, verdict.proven_to, verdict.unproven) == (1, 7, 0)
    assert found_in(file, [*lines[:3], *lines[4:]])[0] == (4, Fault.MISSING)


def test_a_sandbox_that_went_on_after_its_export_is_no_fault(file: Path) -> None:
    log = with_commands()
    log.event("a")
    log.checkpoint()
    kept = [message for message in log.of("a") if message.sequence != 9]
    assert found_in(file, lines_of(kept, sandbox="a", last=6)) == []


def test_a_whole_log_with_the_checkpoint_that_came_after_its_end_is_no_fault(file: Path) -> None:
    log = with_commands()
    kept = [message for message in log.messages if message.sequence in (1, 2, 3, 4, 5, 6, 8)]
    verdict = verdict_on(file, lines_of(kept, last=6))
    assert (verdict.findings, verdict.proven_to) == ((), 7)
    assert found_in(file, lines_of(kept[:5] + kept[6:], last=6))[0] == (6, Fault.TRUNCATED)


def test_the_contents_may_come_in_any_order(file: Path) -> None:
    log, blobs = with_files()
    assert found_in(file, lines_of(log.messages, reversed(blobs))) == []


@pytest.mark.parametrize(("at", "sequence"), [(0, 2), (1, 2), (2, 1), (3, 2)])
def test_a_content_that_was_changed_or_removed_is_told_at_the_first_event_that_names_it(
    file: Path, at: int, sequence: int
) -> None:
    log, blobs = with_files()
    others = [data for data in blobs if data is not blobs[at]]
    assert found_in(file, lines_of(log.messages, others)) == [(sequence, Fault.BLOB_MISSING)]
    lines = lines_of(log.messages, others)
    rewritten = pieces(blobs[at] + b" ", name=sha256(blobs[at]))
    count = exports.encode_line(End(events=4, blobs=4))
    assert found_in(file, [*lines[:-1], *rewritten, count]) == [(sequence, Fault.BLOB_CHANGED)]


def test_a_content_without_its_end_or_its_middle_is_told(file: Path) -> None:
    log, blobs = with_files()
    lines = lines_of(log.messages, blobs)
    (large,) = [number for number, line in enumerate(lines) if b'"offset":262144' in line]
    assert found_in(file, lines[:large] + lines[large + 1 :]) == [(1, Fault.BLOB_CHANGED)]
    assert found_in(file, lines[: large + 1] + lines[large + 2 :]) == [(1, Fault.BLOB_CHANGED)]
    elsewhere = lines[large].replace(b'"offset":262144', b'"offset":262145')
    assert found_in(file, [*lines[:large], elsewhere, *lines[large + 1 :]]) == [(1, Fault.BLOB_CHANGED)]


def test_a_content_that_a_list_names_before_an_event_does_is_told_at_the_list(file: Path) -> None:
    listed = manifest_of({"x": b"x"})
    log = Log()
    log.put("cloche.log.a.file.manifest", _manifest_event(sha256(listed)))
    log.fact("a", created("/w/y", b"x"))
    assert found_in(file, lines_of(log.messages, [listed])) == [(1, Fault.BLOB_MISSING)]


def test_contents_that_were_left_out_are_said_to_be_so(file: Path) -> None:
    log, blobs = with_files()
    assert verdict_on(file, lines_of(log.messages)).contents == -1
    verdict = verdict_on(file, lines_of(log.messages, [b"" for _ in blobs]), blobs=False)
    assert (verdict.findings, verdict.contents) == ((), -1)


def test_a_list_of_files_that_is_none_is_told(file: Path) -> None:
    nonsense = b'{"entries":1}\nnonsense\n'
    log = Log()
    log.fact("a", created("/w/x", b"x"))
    log.event("a")
    log.put("cloche.log.a.file.manifest", _manifest_event(sha256(nonsense)))
    assert found_in(file, lines_of(log.messages, [b"x", nonsense])) == [(3, Fault.UNREADABLE)]


def _manifest_event(name: str) -> bytes:
    return (
        '{"id":"e","source":"s","type":"file.manifest","time":"2026-01-01T00:00:00Z","sandboxid":"a",'
        f'"data":{{"manifest":"{name}","files":0,"bytes":0}}}}'
    ).encode()


def test_an_event_that_names_a_content_by_no_hash_is_told(file: Path) -> None:
    log = Log()
    log.put("cloche.log.a.file.manifest", _manifest_event("../../etc/passwd"))
    assert found_in(file, lines_of(log.messages, [b"x"])) == [(1, Fault.UNREADABLE)]


def test_a_file_that_was_cut_off_is_told_at_the_first_sequence_that_is_gone(file: Path) -> None:
    lines = lines_of(with_commands().messages)
    for kept in range(1, len(lines)):
        assert found_in(file, lines[:kept])[0] == (kept, Fault.TRUNCATED)
    log, blobs = with_files()
    lines_with_contents = lines_of(log.messages, blobs)
    for kept in range(1, 5):
        assert set(found_in(file, lines_with_contents[:kept])) == {(kept, Fault.TRUNCATED)}
    half = [*lines[:4], lines[4][:20]]
    assert {sequence for sequence, _ in found_in(file, half)} == {4}


def test_a_packed_file_that_was_cut_off_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "session.jsonl.gz", lines_of(with_commands().messages))
    whole = path.read_bytes()
    assert found_in(tmp_path / "cut.jsonl", [whole[: len(whole) // 2]])[-1].fault in (Fault.TRUNCATED, Fault.UNREADABLE)


def test_an_end_that_counts_other_events_is_told(file: Path) -> None:
    lines = lines_of(with_commands().messages)
    wrong = exports.encode_line(End(events=9, blobs=0))
    assert found_in(file, [*lines[:-1], wrong]) == [(9, Fault.TRUNCATED)]


def test_what_stands_after_the_end_is_told(file: Path) -> None:
    lines = lines_of(with_commands().messages)
    assert found_in(file, [*lines, lines[1]])[0][1] in (Fault.UNREADABLE, Fault.UNEXPECTED)
    assert found_in(file, [*lines, b"{}\n"]) == [(9, Fault.UNREADABLE)]


def test_a_line_that_cannot_be_read_is_told_in_its_place_and_the_others_are_read(file: Path) -> None:
    lines = lines_of(with_commands().messages)
    for nonsense in (b"nonsense\n", b"[" * 100_000 + b"\n", b"x" * 3_000_000 + b"\n", b"\xff\n"):
        found = found_in(file, [*lines[:3], nonsense, *lines[4:]])
        assert (found[0].sequence, (3, Fault.UNREADABLE) in found, (3, Fault.MISSING) in found) == (3, True, True)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"nonsense", b'{"sequence":1}\n', b'{"cloche_export":99}\n', b"\x1f\x8b"]
)
def test_what_is_no_export_is_refused(file: Path, content: bytes) -> None:
    with pytest.raises(Invalid, match="no export"):
        verdict_on(file, [content])


def test_a_manifest_is_read_in_pieces_of_any_size(file: Path) -> None:
    files = {f"{number:05}": b"" for number in range(4000)}
    listed = manifest_of(files)
    assert len(listed) > exports.PIECE_BYTES
    log = Log()
    log.put("cloche.log.a.file.manifest", _manifest_event(sha256(listed)))
    verdict = verdict_on(file, lines_of(log.messages, [listed, b""]))
    assert (verdict.findings, verdict.contents) == ((), 2)
    assert found_in(file, lines_of(log.messages, [listed])) == [(1, Fault.BLOB_MISSING)]
