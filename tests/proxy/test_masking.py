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


def test_only_what_may_become_the_value_is_held_back() -> None:
    mask = Mask(VALUE)
    assert mask.feed(b"data: hello\n\n") == b"data: hello\n\n"
    assert mask.feed(b"data: sk-a") == b"data: "
    assert mask.feed(b"x") == b"sk-ax"
    assert mask.feed(b"sk-abc") == b""
    assert mask.feed(b"abcd/+!") == b"************!"
    assert mask.feed(b"sk-") + mask.end() == b"sk-"


def test_other_spellings_are_masked_too() -> None:
    value = 'sk-"0123456789'
    seen = Mask(value).whole(json.dumps([value, quote(value), base64.b64encode(value.encode()).decode()]).encode())
    assert b"0123456789" not in seen
    assert b"MDEyMzQ1Njc4" not in base64.b64decode(json.loads(seen)[2])
    assert value.encode() not in base64.b64decode(json.loads(seen)[2])


def test_a_short_value_is_masked_as_it_is() -> None:
    assert Mask("pass").whole(b"the pass is pass") == b"the **** is ****"
