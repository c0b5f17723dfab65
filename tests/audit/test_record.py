"""What is kept outside the store: whole after a crash, and no longer than the log."""

import datetime
import os
from pathlib import Path

import msgspec
import pytest

from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint
from infra.audit import record
from infra.audit.keys import Keys
from infra.audit.record import Kept, Record
from infra.audit.signing import public_of, sign, verify
from infra.audit.tail import Seen, Tail

AT = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)


def kept(first: int, last: int, *, hash_: str = "", size: int = 10) -> Kept:
    said = AuditCheckpoint(
        first_sequence=first,
        last_sequence=last,
        hash=hash_ or f"h{last}",
        previous=f"h{first - 1}",
        key="k",
        signature="s",
        leaves="x" * size,
    )
    return Kept(sequence=last + 1, time=AT, checkpoint=said)


def spans(found: list[Kept]) -> list[tuple[int, int]]:
    return [(each.checkpoint.first_sequence, each.checkpoint.last_sequence) for each in found]


def test_a_line_that_a_crash_cut_short_is_not_read_and_is_written_over(tmp_path: Path) -> None:
    kept_here = Record(tmp_path)
    kept_here.append(kept(1, 5))
    with (tmp_path / record.FILE).open("ab") as file:
        file.write(msgspec.json.encode(kept(6, 9))[:-3])
    assert spans([each.kept for each in kept_here.lines()]) == [(1, 5)]
    assert spans(list(kept_here.backwards())) == [(1, 5)]
    kept_here.append(kept(6, 10))
    assert spans([each.kept for each in kept_here.lines()]) == [(1, 5), (6, 10)]


@pytest.mark.parametrize("size", [10, record.BLOCK - 100, record.BLOCK, record.BLOCK * 2 + 7])
def test_reading_backwards_finds_every_line_whatever_their_length(tmp_path: Path, size: int) -> None:
    kept_here = Record(tmp_path)
    for number in range(5):
        kept_here.append(kept(number * 10 + 1, number * 10 + 10, size=size + number))
    forwards = [each.kept for each in kept_here.lines()]
    assert len(forwards) == 5
    assert list(kept_here.backwards()) == forwards[::-1]


def test_a_line_that_is_no_checkpoint_hides_no_other(tmp_path: Path) -> None:
    kept_here = Record(tmp_path)
    kept_here.append(kept(1, 5))
    with (tmp_path / record.FILE).open("ab") as file:
        file.write(b'{"half": \n\xff\xfe\n\n')
    kept_here.append(kept(6, 9))
    assert spans(list(kept_here.backwards())) == [(6, 9), (1, 5)]


def test_a_log_that_was_cut_and_went_on_is_known_by_its_new_end(tmp_path: Path) -> None:
    kept_here = Record(tmp_path)
    for each in (kept(1, 5), kept(6, 10), kept(11, 15), kept(6, 12, hash_="other"), kept(13, 20)):
        kept_here.append(each)
    assert spans(list(kept_here.current())) == [(13, 20), (6, 12), (1, 5)]


def test_what_the_log_has_dropped_is_forgotten_but_for_what_the_next_one_continues(tmp_path: Path) -> None:
    kept_here = Record(tmp_path)
    for number in range(10):
        kept_here.append(kept(number * 10 + 1, number * 10 + 10))
    assert not kept_here.trim(1)
    assert not kept_here.trim(25)
    assert kept_here.trim(81)
    assert spans([each.kept for each in kept_here.lines()]) == [(71, 80), (81, 90), (91, 100)]
    assert kept_here.generation == 1


def test_a_tail_that_a_crash_cut_short_is_read_up_to_there_and_goes_on(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    first, second, third = (Seen(number, 7, bytes([number]) * 16) for number in (1, 2, 3))
    tail.append([first, second])
    os.truncate(tmp_path / "tail", 33)
    assert tail.read() == [first]
    tail.append([third])
    assert tail.read() == [first, third]
    tail.restart([])
    assert tail.read() == []


def test_a_key_is_there_whole_or_not_at_all_and_the_old_one_goes_when_the_next_comes(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    assert keys.current() is None
    old = keys.make()
    following = keys.prepare()
    # A rotation that was begun, and then the process died: the same key again.
    assert public_of(Keys(tmp_path).prepare()) == public_of(following)
    keys.promote()
    current = keys.current()
    assert current is not None
    assert public_of(current) == public_of(following) != public_of(old)
    assert keys.waiting() is None
    assert {each.name for each in tmp_path.iterdir()} == {"key.pem"}
    assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
    (tmp_path / "key.pem").write_text("no key")
    with pytest.raises(Invalid):
        keys.current()


def test_a_signature_counts_only_for_its_key_and_its_statement(tmp_path: Path) -> None:
    key = Keys(tmp_path).make()
    signature = sign(key, b"said")
    assert verify(public_of(key), b"said", signature)
    assert not verify(public_of(key), b"Said", signature)
    assert not verify("00" * 32, b"said", signature)
    for nonsense in ("", "zz", "ff", signature[:-2], "ff" * 64):
        assert not verify(public_of(key), b"said", nonsense)
        assert not verify(nonsense, b"said", signature)
