"""A value that is not to be seen, in pieces of any size."""

import base64
import itertools
import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from infra.proxy.masking import Mask

VALUE = "sk-abcabcd/+"
TEXTS = st.lists(
    st.sampled_from([b"sk-", b"sk-abc", b"abc", b"d/+", b"sk-abcabcd/+", b"sk-abcabcd%2F%2B", b"s", b"x"]), max_size=12
)


@given(TEXTS, st.lists(st.integers(0), max_size=12))
def test_the_value_is_masked_however_the_text_is_cut(parts: list[bytes], at: list[int]) -> None:
    text = b"".join(parts)
    places = sorted({0, len(text), *(each % (len(text) + 1) for each in at)})
    mask = Mask(VALUE)
    seen = b"".join(mask.feed(text[begin:end]) for begin, end in itertools.pairwise(places)) + mask.end()
    assert len(seen) == len(text)
    assert VALUE.encode() not in seen
    assert b"sk-abcabcd%2F%2B" not in seen
    assert seen == Mask(VALUE).whole(text)


def test_what_is_held_back_does_not_depend_on_what_it_is() -> None:
    alike, other = Mask(VALUE), Mask(VALUE)
    for length in range(1, len(VALUE)):
        guess = VALUE[:length].encode()
        pieces = [len(alike.feed(b"data: " + guess)), len(alike.end())]
        assert pieces == [len(other.feed(b"data: " + b"!" * length)), len(other.end())]


def test_no_more_is_held_back_than_the_value_may_have_begun_in() -> None:
    mask = Mask(VALUE)
    text = bytes(range(128)) * 10
    assert len(text) - len(mask.feed(text)) < 3 * len(VALUE)
    assert len(mask.feed(text)) == len(text)


@given(st.integers(1, len(VALUE) - 1))
def test_of_a_value_with_a_pause_in_it_what_comes_after_the_pause_is_masked(pause: int) -> None:
    mask = Mask(VALUE)
    before = mask.feed(b"<" + VALUE[:pause].encode()) + mask.end()
    after = mask.feed(VALUE[pause:].encode() + b">") + mask.end()
    assert before == b"<" + VALUE[:pause].encode()
    assert after == b"*" * (len(VALUE) - pause) + b">"


def test_of_values_that_overlap_nothing_is_seen() -> None:
    assert Mask("ab1ab1ab").whole(b"<ab1ab1ab1ab>") == b"<" + b"*" * 11 + b">"


def test_other_spellings_are_masked_too() -> None:
    value = 'sk-"0123456789'
    seen = Mask(value).whole(json.dumps([value, quote(value), base64.b64encode(value.encode()).decode()]).encode())
    assert b"0123456789" not in seen
    assert b"MDEyMzQ1Njc4" not in base64.b64decode(json.loads(seen)[2])
    assert value.encode() not in base64.b64decode(json.loads(seen)[2])


def test_a_short_value_is_masked_as_it_is() -> None:
    assert Mask("pass").whole(b"the pass is pass") == b"the **** is ****"
