from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.keeper.frame import HEADER_BYTES, Kind
from infra.keeper.spool import PositionGone, SpoolDamaged, SpoolReader, SpoolWriter, segments

KINDS = st.sampled_from([Kind.STDIN, Kind.STDOUT, Kind.STDERR, Kind.PTY])
PAYLOADS = st.lists(st.tuples(KINDS, st.binary(max_size=100)), min_size=1, max_size=20)


def write(directory: Path, payloads: list[tuple[Kind, bytes]], segment_bytes: int = 200) -> SpoolWriter:
    writer = SpoolWriter(directory, segment_bytes=segment_bytes, wall_clock_ns=lambda: 7)
    for kind, payload in payloads:
        writer.append(kind, payload)
    writer.close()
    return writer


@given(PAYLOADS)
def test_frames_come_back_whole_from_any_position(payloads: list[tuple[Kind, bytes]]) -> None:
    with TemporaryDirectory() as name:
        writer = write(Path(name), payloads)
        reader = SpoolReader(Path(name))
        frames = list(reader.frames())
        assert [(frame.kind, frame.payload) for frame in frames] == payloads
        assert [frame.index for frame in frames] == list(range(len(payloads)))
        assert frames[-1].next_position == writer.size
        for frame in frames:
            assert next(reader.frames(frame.position)) == frame
        for kind in {kind for kind, _ in payloads}:
            total = 0
            for frame in frames:
                if frame.kind == kind:
                    assert frame.offset == total
                    total += len(frame.payload)


@settings(max_examples=60)
@given(PAYLOADS, st.data())
def test_a_torn_tail_is_passed_over_by_readers_and_cut_off_by_the_next_writer(
    payloads: list[tuple[Kind, bytes]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as name:
        directory = Path(name)
        write(directory, payloads)
        last = segments(directory)[-1]
        kept = data.draw(st.integers(0, last.path.stat().st_size))
        with last.path.open("r+b") as file:
            file.truncate(kept)
            file.seek(0, 2)
            file.write(data.draw(st.binary(max_size=60)))
        whole = [frame.payload for frame in SpoolReader(directory).frames()]
        assert whole == [payload for _, payload in payloads][: len(whole)]
        write(directory, [(Kind.EXIT, b"{}")])
        after = list(SpoolReader(directory).frames())
        assert [frame.payload for frame in after] == [*whole, b"{}"]
        assert [frame.index for frame in after] == list(range(len(after)))


def test_confirming_removes_whole_segments_and_keeps_numbers_and_totals(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=1000)
    for _ in range(30):
        writer.append(Kind.STDOUT, b"x" * 400)
    middle = list(SpoolReader(tmp_path).frames())[15]
    writer.confirm(middle.position)
    assert middle.position - 3000 < writer.first <= middle.position
    assert next(SpoolReader(tmp_path).frames(middle.position)) == middle
    with pytest.raises(PositionGone):
        next(SpoolReader(tmp_path).frames(0))
    writer.append(Kind.STDERR, b"e")
    writer.close()
    again = SpoolWriter(tmp_path)
    assert (again.summary.index, again.summary.totals) == (31, {"stdout": 12_000, "stderr": 1})
    again.close()


def test_totals_outlive_the_segments_they_were_counted_in(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, segment_bytes=100)
    writer.append(Kind.STDERR, b"e" * 200)
    writer.append(Kind.STDOUT, b"o" * 200)
    writer.append(Kind.STDOUT, b"o" * 200)
    writer.confirm(writer.size)
    writer.close()
    assert len(segments(tmp_path)) == 1
    again = SpoolWriter(tmp_path)
    assert again.summary.totals == {"stderr": 200, "stdout": 400}
    again.close()


def test_damage_before_the_tail_is_an_error_and_not_an_early_end(tmp_path: Path) -> None:
    write(tmp_path, [(Kind.STDOUT, b"a" * 300), (Kind.STDOUT, b"b" * 300)])
    first = segments(tmp_path)[0]
    with first.path.open("r+b") as file:
        file.seek(HEADER_BYTES + 10)
        file.write(b"?")
    with pytest.raises(SpoolDamaged):
        list(SpoolReader(tmp_path).frames())
