"""Keys and anchors, as people give them."""

import os
import threading
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec.structs import replace

from contracts.chain import Fault
from contracts.errors import Invalid
from contracts.verifying import Trust
from infra.audit import place
from infra.audit.keys import Keys
from infra.audit.record import FILE, Record
from infra.audit.record import Kept as Recorded
from infra.audit.signing import public_of
from infra.verify import anchors, keeping, keys
from tests.verify.logs import KEY, OTHER, Log, found, said_in, time_of


def of_events(*texts: str) -> Log:
    """Two events and a checkpoint, again and again."""
    log = Log()
    for number, text in enumerate(texts):
        log.event("a", text)
        if number % 2:
            log.checkpoint()
    return log


def recorded(log: Log, directory: Path) -> Path:
    """As the node keeps its checkpoints."""
    record = Record(directory)
    for message in log.messages:
        if message.subject.endswith("audit.checkpoint"):
            at = message.sequence
            record.append(Recorded(sequence=at, time=time_of(at), checkpoint=said_in(message)))
    return directory / FILE


def anchored(log: Log, file: Path) -> Path:
    file.write_bytes(b"".join(msgspec.json.encode(kept.anchor) + b"\n" for kept in log.anchors))
    return file


def test_the_record_of_a_node_names_the_event_that_somebody_changed_and_signed_anew(tmp_path: Path) -> None:
    kept = anchors.read(recorded(of_events("one", "two", "three", "four"), tmp_path))
    forged = of_events("one", "two", "three", "other")
    assert found(forged.messages) == []
    assert found(forged.messages, trust=Trust(anchors=tuple(kept))) == [(5, Fault.CHANGED)]


def test_anchors_are_read_from_lines_among_others_and_a_half_one_is_passed_over(tmp_path: Path) -> None:
    file = anchored(of_events("one", "two", "three", "four"), tmp_path / "anchors")
    whole = file.read_bytes()
    file.write_bytes(b"started\n" + whole[:-20])
    assert [kept.anchor.last_sequence for kept in anchors.read(file)] == [2]
    forged = of_events("one", "other")
    assert found(forged.messages, trust=Trust(anchors=tuple(anchors.read(file)))) == [(3, Fault.WRONG_ANCHOR)]


def test_anchors_may_come_from_several_places_and_in_any_order(tmp_path: Path) -> None:
    log = of_events("one", "two", "three", "four")
    kept = [*reversed(list(anchors.read(anchored(log, tmp_path / "anchors")))), *anchors.read(recorded(log, tmp_path))]
    assert found(log.messages, trust=Trust(anchors=tuple(kept))) == []
    assert found(log.messages[:4], trust=Trust(anchors=tuple(kept))) == [(5, Fault.TRUNCATED)]


def test_a_file_of_anchors_may_be_replaced_or_continued_while_it_is_read(tmp_path: Path) -> None:
    log = of_events("one", "two", "three", "four")
    file = anchored(log, tmp_path / "anchors")
    kept = anchors.read(file)
    anchored(of_events("one", "two", "three", "four", "five", "six"), tmp_path / "others").replace(file)
    assert [each.anchor.last_sequence for each in kept] == [2, 5]
    kept = anchors.read(file)
    with file.open("ab") as more:
        more.write(msgspec.json.encode(log.anchors[0].anchor) + b"\n")
    assert [each.anchor.last_sequence for each in kept] == [2, 5, 8]


@pytest.mark.parametrize("is_in_order", [True, False])
def test_a_file_of_anchors_that_is_changed_while_it_is_read_is_said_to_be(tmp_path: Path, is_in_order: bool) -> None:
    log = of_events("one", "two", "three", "four")
    log.anchors.sort(key=lambda kept: kept.anchor.last_sequence, reverse=not is_in_order)
    file = anchored(log, tmp_path / "anchors")
    kept = anchors.read(file)
    os.truncate(file, file.stat().st_size - 20)
    with pytest.raises(Invalid, match="was changed while it was read"):
        list(kept)


def test_anchors_come_through_a_pipe_too(tmp_path: Path) -> None:
    log = of_events("one", "two", "three", "four")
    whole = anchored(log, tmp_path / "anchors").read_bytes()
    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(whole,))
    writing.start()
    kept = anchors.read(tmp_path / "pipe")
    writing.join()
    assert found(log.messages[:4], trust=Trust(anchors=(kept,))) == [(5, Fault.TRUNCATED)]


def test_anchors_with_sequences_beyond_all_reason_come_last(tmp_path: Path) -> None:
    log = of_events("one", "two")
    like = log.anchors[0].anchor
    said = [10**30, 5, -1, 2**64, 7, 7]
    file = tmp_path / "anchors"
    file.write_bytes(b"".join(msgspec.json.encode(replace(like, last_sequence=each)) + b"\n" for each in said))
    assert [each.anchor.last_sequence for each in anchors.read(file)][:4] == [-1, 5, 7, 7]


def test_a_line_without_an_end_is_no_anchor_and_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "anchors"
    file.write_bytes(b"x" * (anchors.MOST_LINE_BYTES * 2))
    with pytest.raises(Invalid, match="no anchor"):
        anchors.read(file)


def test_a_node_whose_record_is_spoilt_still_knows_its_key_and_its_log(tmp_path: Path) -> None:
    directory = place.prepare(tmp_path)
    place.keep_name(directory, "a-log")
    key = Keys(directory).make()
    for spoilt in (None, b"", b"nonsense\n"):
        if spoilt is not None:
            (directory / FILE).write_bytes(spoilt)
        assert keeping.read(tmp_path) == ("a-log", public_of(key), ())


def test_keys_are_digits_or_files_of_digits_or_pem(tmp_path: Path) -> None:
    mine, other = public_of(KEY), public_of(OTHER)
    assert keys.read(mine.upper()) == [mine]
    (tmp_path / "keys").write_text(f"# ours\n{mine}\nold: {other}\n")
    assert keys.read(str(tmp_path / "keys")) == [mine, other]
    (tmp_path / "pem").write_bytes(KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert keys.read(str(tmp_path / "pem")) == [mine]


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    other = generate_private_key(65537, 1024).public_key()
    (tmp_path / "pem").write_bytes(other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(Invalid, match="another kind"):
        keys.read(str(tmp_path / "pem"))
