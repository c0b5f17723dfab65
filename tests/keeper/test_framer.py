from hypothesis import given
from hypothesis import strategies as st

from infra.keeper.frame import MAX_PAYLOAD, Kind
from infra.keeper.framer import GATHER_S, Cut, Framer, incomplete_tail

OUTPUTS = st.sampled_from([Kind.STDOUT, Kind.STDERR])
STEPS = st.lists(st.tuples(OUTPUTS, st.binary(min_size=1, max_size=50), st.floats(0, 0.03)), max_size=60)


def play(steps: list[tuple[Kind, bytes, float]], *, ticks: bool = True) -> list[Cut]:
    framer, now, cuts = Framer(), 0.0, []
    for kind, data, pause in steps:
        now += pause
        if ticks and framer.deadline is not None and now >= framer.deadline:
            cuts += framer.tick(now)
        cuts += framer.feed(kind, data, now)
    return cuts + framer.end(Kind.STDOUT, now) + framer.end(Kind.STDERR, now)


def joined(cuts: list[Cut], kind: Kind) -> bytes:
    return b"".join(cut.payload for cut in cuts if cut.kind == kind)


@given(STEPS)
def test_what_comes_out_joined_is_what_went_in(steps: list[tuple[Kind, bytes, float]]) -> None:
    cuts = play(steps)
    for kind in (Kind.STDOUT, Kind.STDERR):
        assert joined(cuts, kind) == b"".join(data for each, data, _ in steps if each == kind)
    assert all(cut.payload for cut in cuts)


@given(st.text(max_size=300), st.lists(st.tuples(st.integers(1, 5), st.floats(0, 0.02)), min_size=1, max_size=50))
def test_valid_text_is_never_cut_inside_a_character(text: str, cuts_at: list[tuple[int, float]]) -> None:
    left, steps = text.encode(), []
    for size, pause in cuts_at:
        steps.append((Kind.STDOUT, left[:size], pause))
        left = left[size:]
    steps = [step for step in [*steps, (Kind.STDOUT, left, 0.0)] if step[1]]
    cuts = play(steps, ticks=False)
    assert "".join(cut.payload.decode() for cut in cuts) == text


def test_a_lone_prefix_is_held_for_two_ticks_and_no_longer() -> None:
    framer = Framer()
    assert framer.feed(Kind.STDOUT, b"\xe2\x82", 0.0) == []
    assert framer.tick(0.01) == []
    assert framer.tick(0.02) == [Cut(Kind.STDOUT, b"\xe2\x82")]
    assert framer.deadline is None


def test_first_output_after_a_silence_goes_at_once_and_the_next_is_gathered() -> None:
    framer = Framer()
    assert framer.feed(Kind.STDOUT, b"a", 1.0) == [Cut(Kind.STDOUT, b"a")]
    assert framer.feed(Kind.STDOUT, b"b", 1.001) == []
    assert framer.feed(Kind.STDOUT, b"c", 1.002) == []
    assert framer.deadline == 1.0 + GATHER_S
    assert framer.tick(1.01) == [Cut(Kind.STDOUT, b"bc")]


def test_switching_streams_keeps_their_order_until_too_many_frames_are_made() -> None:
    framer = Framer()
    cuts: list[Cut] = []
    for number in range(200):
        cuts += framer.feed(Kind.STDOUT if number % 2 else Kind.STDERR, b"%d " % number, 1.0)
    assert [int(cut.payload) for cut in cuts[:10]] == list(range(10))
    assert len(cuts) <= 17
    assert len(cuts + framer.flush(1.0)) <= 19


def test_no_frame_and_no_buffer_is_larger_than_64_kib() -> None:
    framer, cuts = Framer(), []
    left = "€".encode() * 100_000
    while left:
        room = framer.room(Kind.STDOUT)
        assert 0 < room <= MAX_PAYLOAD
        cuts += framer.feed(Kind.STDOUT, left[:room], 1.0)
        left = left[room:]
    cuts += framer.end(Kind.STDOUT, 1.0)
    assert max(len(cut.payload) for cut in cuts) <= MAX_PAYLOAD
    assert "".join(cut.payload.decode() for cut in cuts) == "€" * 100_000


@given(st.binary(max_size=20))
def test_a_tail_is_held_back_only_if_more_bytes_could_complete_it(data: bytes) -> None:
    held = incomplete_tail(data)
    assert held <= 3
    tail = data[len(data) - held :]
    completions = [tail + rest for rest in (b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\xa0\x80", b"\x90\x80\x80")]
    assert held == 0 or any(_is_one_character(each) for each in completions)


def _is_one_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False
