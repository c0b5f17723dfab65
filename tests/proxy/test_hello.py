"""The name in the first message of TLS."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.proxy.hello import Hello, HelloReader
from infra.proxy.port import Refused
from tests.proxy.hellos import client_hello, hello, message, records, server_name, vector

REAL = hello("origin.test")


def read(raw: bytes) -> Hello | None:
    return HelloReader().read(raw)


@pytest.mark.parametrize("name", ["origin.test", None])
def test_the_name_is_found_in_what_a_real_client_says(name: str | None) -> None:
    assert read(hello(name)) == Hello(name)


def test_the_name_is_found_at_the_last_byte_and_not_before() -> None:
    reader = HelloReader()
    assert [reader.read(REAL[:end]) for end in range(len(REAL))] == [None] * len(REAL)
    assert reader.read(REAL) == Hello("origin.test")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100, 16_384])
def test_the_name_is_found_over_any_number_of_records(size: int) -> None:
    assert read(records(message(REAL), size)) == Hello("origin.test")


def test_the_name_is_found_in_a_huge_hello() -> None:
    raw = hello("origin.test", padding=40_000)
    assert len(raw) > 40_000
    assert read(raw + b"what follows") == Hello("origin.test")


def test_a_name_is_folded() -> None:
    assert read(records(client_hello(server_name(b"Origin.TEST")), 1000)) == Hello("origin.test")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x15" + REAL[1:],
        b"\x16\x02" + REAL[2:],
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff" + bytes(65_535),
        REAL[:5] + b"\x02" + REAL[6:],
        records(message(REAL) + b"x", 10_000),
        records(message(REAL)[:50], 50) + b"\x17" + REAL[1:],
        records(b"\x01\xff\xff\xff" + bytes(100), 50),
        records(b"\x01\x01\x00\x00" + bytes(65_536), 1)[: 6 * 1030],
        records(client_hello(server_name(b"a.test") + server_name(b"b.test")), 1000),
        records(client_hello(server_name(b"a.test", b"b.test")), 1000),
        records(client_hello(server_name(b"")), 1000),
        records(client_hello(server_name()), 1000),
        records(client_hello(server_name(b"a.test", kind=1)), 1000),
        records(client_hello(server_name(b"\xff.test")), 1000),
        records(client_hello(b"\x00\x00" + vector(vector(b"\x00" + vector(b"a.test")) + b"x")), 1000),
        records(client_hello(server_name(b"a.test")[:-1]), 1000),
        records(client_hello(b"\x00\x0a\x00\x00\x00\x0a\x00\x00"), 1000),
    ],
)
def test_what_is_no_proper_hello_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused):
        read(raw)


@given(st.binary(max_size=300) | st.tuples(st.integers(0, len(REAL) - 1), st.binary(max_size=3)).map(
    lambda change: REAL[: change[0]] + change[1] + REAL[change[0] + len(change[1]) :]
))  # fmt: skip
@example(b"")
def test_whatever_comes_is_read_or_refused_or_waited_for(raw: bytes) -> None:
    try:
        said = read(raw)
    except Refused:
        return
    assert said is None or said.name is None or said.name.isascii()
