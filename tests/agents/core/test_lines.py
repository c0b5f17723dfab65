import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import AgentFailed
from services.agent.lines import Lines


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=10))
def test_lines_and_their_offsets_do_not_depend_on_how_the_bytes_come(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    lines = Lines(1000)
    found = [line for begin, end in itertools.pairwise(places) for line in lines.feed(data[begin:end])]
    assert [line.data for line in found] == data.split(b"\n")[:-1]
    assert all(data[line.offset :].startswith(line.data + b"\n") for line in found)
    assert data[lines.offset :] == lines.rest


def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory() -> None:
    lines = Lines(100)
    lines.feed(b"x" * 100)
    with pytest.raises(AgentFailed, match="100 bytes"):
        lines.feed(b"x")
