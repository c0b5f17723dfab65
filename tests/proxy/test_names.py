"""A host has one spelling, whatever a client writes."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.proxy.names import authority, canonical_host, split_authority
from infra.proxy.port import Refused


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("example.com.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("XN--bcher-kva.example", "xn--bcher-kva.example"),
        ("ｅxample.com", "example.com"),
        ("example。com", "example.com"),
        ("_srv.example.com", "_srv.example.com"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.0.0.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("0xa9.254.0251.0xfe", "169.254.169.254"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
        ("[::127.0.0.1]", "::7f00:1"),
    ],
)
def test_every_spelling_of_a_host_becomes_the_same_one(written: str, meant: str) -> None:
    assert canonical_host(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "", ".", "..", "a..b", ".a", "a b", "a/b", "a%2eb", "%31%32%37.0.0.1", "a\\b", "a\x00b", "-a.example",
        "a-.example", "a" * 64 + ".example", "a." * 127 + "ab", "256.0.0.1", "1.2.3.4.5", "4294967296", "0x", "08",
        "1.2.3.0x", "example.1", "[::1", "::1]", "[]", "[::1]x", "[fe80::1%eth0]", "fe80::1%25eth0", "[::g]",
        "[1.2.3.4]", "a\u2028b", "\u202eexample.com", "exa\u00admple.com\x7f", "[v1.fe80]", "127.0.0.1..", "e*.com",
    ],
)  # fmt: skip
def test_what_is_neither_a_name_nor_an_address_is_refused(written: str) -> None:
    with pytest.raises(Refused):
        canonical_host(written)


@given(st.text(max_size=40) | st.from_regex(r"[0-9a-fx.:\[\]%]{1,20}", fullmatch=True))
def test_a_canonical_host_is_its_own_canonical_spelling(text: str) -> None:
    try:
        host = canonical_host(text)
    except Refused:
        return
    assert canonical_host(host) == host
    assert host.isascii()
    assert host == host.lower()


@given(st.from_regex(r"(0x[0-9a-f]{0,8}|[0-9]{1,11})(\.(0x[0-9a-f]{0,4}|[0-9]{1,5})){0,4}", fullmatch=True))
def test_a_numeric_name_is_the_address_that_the_system_would_connect_to(text: str) -> None:
    try:
        meant = str(ipaddress.IPv4Address(socket.inet_aton(text)))
    except OSError:
        with pytest.raises(Refused):
            canonical_host(text)
    else:
        assert canonical_host(text) == meant


@given(st.ip_addresses(), st.integers(1, 65_535))
def test_an_authority_is_read_as_it_was_written(address: ipaddress.IPv4Address, port: int) -> None:
    host = canonical_host(str(address))
    assert split_authority(authority(host, port, None), None) == (host, port)


@pytest.mark.parametrize(
    "written",
    [
        "a:",
        "a:0",
        "a:080",
        "a:65536",
        "a:+80",
        "a: 80",
        "a:8_0",
        "a:80:80",
        "u@a:80",
        "u:p@a:80",
        "[::1]80",
        "a",
        "a:٨٠",
    ],
)
def test_an_odd_port_or_a_user_is_refused(written: str) -> None:
    with pytest.raises(Refused):
        split_authority(written, None)
