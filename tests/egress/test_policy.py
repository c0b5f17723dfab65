"""Which names and addresses may be reached: tables of what people try, and properties that hold for anything."""

import ipaddress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import Invalid
from contracts.hostnames import fold, fold_pattern
from contracts.presets import HOSTS, hosts_of
from contracts.spec import Network, NetworkMode, Preset, SandboxSpec, Secret, UnknownHost, merge
from infra.proxy.names import canonical_host
from infra.proxy.port import Refused
from infra.settings import Egress
from services.egress.addresses import networks_of, why_forbidden
from services.egress.decide import Policy, Ruling
from tests.contracts.properties import calm

LABELS = st.text("abc019-", max_size=4).map(lambda text: f"n{text}n")
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)


def ruling(hosts: tuple[str, ...], host: str, port: int = 443, **more: object) -> Ruling:
    network = msgspec.convert({"allowed_hosts": hosts, **more}, Network)
    return Policy(network).judge(host, port).ruling


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.com.", "example.com"),
        ("*.example.com", "a.example.com"),
        ("*.Example.COM.", "a.b.c.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("XN--bcher-kva.example", "xn--bcher-kva.example"),
        ("*.BÜCHER.example", "www.xn--bcher-kva.example"),
        ("93.184.216.34", "93.184.216.34"),
        ("2606:2800:220:1:0:0:0:1", "2606:2800:220:1::1"),
        ("*.com", "example.com"),
        ("_dmarc.example.com", "_dmarc.example.com"),
    ],
)
def test_what_is_allowed_is_allowed_in_every_spelling_of_it(pattern: str, host: str) -> None:
    assert ruling((pattern,), host) is Ruling.PASS


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("*.example.com", "example.com"),
        ("*.example.com", "badexample.com"),
        ("*.example.com", "example.com.evil.org"),
        ("example.com", "a.example.com"),
        ("example.com", "example.com.evil.org"),
        ("example.com", "example.co"),
        ("example.com", "EXAMPLE.com"),
        ("example.com", "example.com."),
        ("*.example.com", ".example.com"),
        ("*.example.com", "a..example.com"),
        ("*.example.com", "a b.example.com"),
        ("*.example.com", "a%00.example.com"),
        ("*.example.com", "*.example.com"),
        ("127.0.0.1", "2130706433"),
        ("127.0.0.1", "0x7f.0.0.1"),
        ("127.0.0.1", "127.1"),
        ("::1", "[::1]"),
        ("fe80::1", "fe80::1%eth0"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("example.com", ""),
        ("example.com", "example.com" * 200),
    ],
)
def test_what_is_only_like_it_is_denied(pattern: str, host: str) -> None:
    assert ruling((pattern,), host) is Ruling.DENY


@calm
@given(st.lists(NAMES, max_size=5), NAMES)
def test_a_list_of_names_allows_these_and_nothing_else(allowed: list[str], host: str) -> None:
    assert (ruling(tuple(allowed), host) is Ruling.PASS) == (host in allowed)


@calm
@given(NAMES, NAMES)
def test_a_suffix_is_for_what_lies_below_it(suffix: str, below: str) -> None:
    assert ruling((f"*.{suffix}",), f"{below}.{suffix}") is Ruling.PASS
    assert ruling((f"*.{suffix}",), suffix) is Ruling.DENY
    assert ruling((f"*.{suffix}",), f"{below}{suffix}") is Ruling.DENY


@calm
@given(st.text(max_size=300))
def test_folding_anything_twice_is_folding_it_once(text: str) -> None:
    folded = fold(text)
    assert folded is None or fold(folded) == folded
    pattern = fold_pattern(text)
    assert pattern is None or fold_pattern(pattern) == pattern


@calm
@given(st.text(max_size=80) | NAMES | st.ip_addresses().map(str) | st.text("0123456789xaf.:", max_size=20))
def test_what_the_proxy_asks_for_is_spelled_as_the_policy_spells_it(text: str) -> None:
    try:
        host = canonical_host(text)
    except Refused:
        return
    assert fold(host) == host


def test_an_empty_list_allows_nothing_and_ports_count() -> None:
    assert ruling((), "example.com") is Ruling.DENY
    assert ruling(("example.com",), "example.com", 22) is Ruling.DENY
    assert ruling(("example.com",), "example.com", 22, allowed_ports=[22]) is Ruling.PASS
    assert ruling(("example.com",), "example.com", 443, allowed_ports=[]) is Ruling.DENY
    assert ruling(("example.com",), "example.com", mode="none") is Ruling.DENY


def test_what_is_unknown_is_asked_for_where_the_sandbox_may_ask() -> None:
    asking = Policy(Network(allowed_hosts=("a.org",), unknown=UnknownHost.ASK))
    assert asking.judge("b.org", 443).ruling is Ruling.ASK
    assert asking.judge("a.org", 22).ruling is Ruling.ASK
    assert asking.judge("0x7f.1", 80).ruling is Ruling.DENY
    off = Policy(Network(mode=NetworkMode.NONE, unknown=UnknownHost.ASK))
    assert off.judge("b.org", 443).ruling is Ruling.DENY


def test_presets_stand_for_their_hosts() -> None:
    assert set(HOSTS) == set(Preset)
    assert all(fold(host) == host for host in hosts_of(Preset))
    assert ruling((), "pypi.org", presets=["pip"]) is Ruling.PASS
    assert ruling((), "registry.npmjs.org", presets=["pip"]) is Ruling.DENY


def test_a_route_goes_to_the_host_of_its_secret_only() -> None:
    policy = Policy(Network(allowed_hosts=("other.org",)), (Secret(name="key", host="API.example.com"),))
    assert policy.judge("api.example.com", 443, "key").ruling is Ruling.PASS
    assert policy.judge("api.example.com", 443).ruling is Ruling.DENY
    assert policy.judge("other.org", 443, "key").ruling is Ruling.DENY
    assert policy.judge("api.example.com", 80, "key").ruling is Ruling.DENY
    assert policy.judge("api.example.com", 443, "another").ruling is Ruling.DENY


@pytest.mark.parametrize("host", ["a..b", "example.com:443", "-a.org", "0x7f.1", "*.10.0.0.1", "a_b-.org", "1.2.3"])
def test_a_specification_with_a_host_that_could_never_match_is_refused(host: str) -> None:
    with pytest.raises(Invalid, match=r"is no host.*allowed_hosts\[1\]"):
        merge(SandboxSpec(), msgspec.json.encode({"network": {"allowed_hosts": ["a.org", host]}}))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "169.254.169.254", "169.254.1.1", "100.64.0.1", "100.100.100.200", "168.63.129.16", "224.0.0.1", "239.1.1.1",
        "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.0.0.170",
        "192.88.99.1", "::", "::1", "fe80::1", "fd00:ec2::254", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1",
        "3fff::1", "2001:2::1", "2001:10::1", "100::1", "5f00::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1",
        "::ffff:0:10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "2002:7f00:1::",
        "2002:808:808::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:4860::200:5efe:10.0.0.1",
        "2001:4860::5efe:a9fe:a9fe", "4000::1",
    ],
)  # fmt: skip
def test_what_is_not_public_is_forbidden(address: str) -> None:
    assert why_forbidden(ipaddress.ip_address(address)) is not None


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "93.184.216.34", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:2800:220:1::1", "2a00:1450:4001::1"],
)
def test_what_is_public_is_not(address: str) -> None:
    assert why_forbidden(ipaddress.ip_address(address)) is None


@pytest.mark.parametrize(
    ("permitted", "address", "free"),
    [
        ("127.7.0.0/16", "127.7.3.4", True),
        ("127.7.0.0/16", "127.8.0.1", False),
        ("127.7.0.0/16", "::ffff:127.7.0.1", False),
        ("64:ff9b::/96", "64:ff9b::8.8.8.8", True),
        ("64:ff9b::/96", "64:ff9b::10.0.0.1", False),
        ("::ffff:0:0/96", "::ffff:169.254.169.254", False),
        ("2002::/16", "2002:7f00:1::", False),
        ("fd00:1::/64", "fd00:1::7", True),
    ],
)
def test_the_operator_permits_exactly_what_is_said(permitted: str, address: str, free: bool) -> None:
    assert (why_forbidden(ipaddress.ip_address(address), networks_of([permitted])) is None) == free


@calm
@given(st.integers(0, 2**32 - 1))
def test_no_spelling_within_ipv6_makes_a_forbidden_address_free(number: int) -> None:
    plain = ipaddress.IPv4Address(number)
    permitted = networks_of(["::ffff:0:0/96", "64:ff9b::/96", "2002::/16", "::/96"])
    hidden = [number | 0xFFFF << 32, number | 0x64FF9B << 96, 0x2002 << 112 | number << 80, max(number, 2)]
    for each in hidden:
        free = why_forbidden(ipaddress.IPv6Address(each), permitted) is None
        assert not free or why_forbidden(plain) is None


@calm
@given(st.ip_addresses(v=6))
def test_nothing_outside_of_the_public_part_of_ipv6_is_free(address: ipaddress.IPv6Address) -> None:
    if why_forbidden(address) is None:
        assert address in ipaddress.ip_network("2000::/3")
        assert address.is_global


@calm
@given(st.ip_addresses(v=4))
def test_what_python_holds_for_private_is_forbidden(address: ipaddress.IPv4Address) -> None:
    if why_forbidden(address) is None:
        assert address.is_global
        assert not address.is_multicast


@pytest.mark.parametrize(
    "values",
    [
        {"networks": ["10.0.0.0/33"]},
        {"networks": ["10.0.0.1/8"]},
        {"addresses": {"a b": ["10.0.0.1"]}},
        {"addresses": {"a.org": ["ten"]}},
        {"addresses": {"a.org": []}},
        {"addresses": {"10.0.0.1": ["10.0.0.2"]}},
        {"max_connections": 0},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(values, Egress)
