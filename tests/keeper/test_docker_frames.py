import struct

from hypothesis import given
from hypothesis import strategies as st

from infra.keeper.docker.frames import STDERR, STDOUT, Demultiplexer
from infra.keeper.docker.refusal import classified

parts = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=50)), max_size=12)


def joined(frames: Demultiplexer, pieces: list[bytes]) -> dict[int, bytes]:
    found = {STDOUT: b"", STDERR: b""}
    for piece in pieces:
        for stream, data in frames.feed(memoryview(piece)):
            found[stream] += bytes(data)
    return found


@given(parts, st.integers(1, 40))
def test_streams_come_apart_wherever_the_connection_is_cut(sent: list[tuple[int, bytes]], size: int) -> None:
    wire = b"".join(struct.pack(">BxxxL", stream, len(data)) + data for stream, data in sent)
    pieces = [wire[start : start + size] for start in range(0, len(wire), size)]
    expected = {kind: b"".join(data for stream, data in sent if stream == kind) for kind in (STDOUT, STDERR)}
    assert joined(Demultiplexer(), pieces) == expected


def test_a_terminal_has_no_headers() -> None:
    assert joined(Demultiplexer(framed=False), [b"\1\0\0\0", b"x"]) == {STDOUT: b"\1\0\0\0x", STDERR: b""}


def test_the_words_of_the_engine_become_a_reason() -> None:
    words = "OCI runtime exec failed: exec failed: unable to start container process: "
    for text, code in (
        ('exec: "x": executable file not found in $PATH: unknown', "NOT_FOUND"),
        ('exec: "/x": stat /x: no such file or directory: unknown', "NOT_FOUND"),
        ('exec: "/etc": permission denied: unknown', "NOT_EXECUTABLE"),
        ("exec /tmp/x: exec format error", "NOT_EXECUTABLE"),
        ('chdir to cwd ("/n") set in config.json failed: no such file or directory: unknown', "BAD_CWD"),
        ("procReady not received", "FAILED"),
    ):
        assert classified(words + text).code == code
