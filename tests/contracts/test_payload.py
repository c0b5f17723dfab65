import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import Invalid
from contracts.payload import Encoding, pack, unpack
from tests.contracts.properties import calm


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


@calm
@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_come_back_and_are_text_exactly_when_they_are_valid_utf8(raw: bytes) -> None:
    data, encoding = pack(raw)
    assert unpack(data, encoding) == raw
    assert (encoding == Encoding.UTF8) == _is_text(raw)


@pytest.mark.parametrize("data", ["!", "AAA", "AA=A", "AA==\n", "é", "\ud800", "AA-_"])
def test_what_is_not_base64_is_invalid(data: str) -> None:
    with pytest.raises(Invalid, match="not base64"):
        unpack(data, Encoding.BASE64)


def test_a_lone_surrogate_is_invalid_text() -> None:
    with pytest.raises(Invalid, match="not utf-8"):
        unpack("a\ud800", Encoding.UTF8)


@calm
@given(st.text(alphabet=st.characters()), st.sampled_from(Encoding))
def test_unpacking_gives_bytes_or_says_invalid(data: str, encoding: Encoding) -> None:
    with contextlib.suppress(Invalid):
        assert isinstance(unpack(data, encoding), bytes)
