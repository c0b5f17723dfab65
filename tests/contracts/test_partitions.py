"""Where a sandbox is, is decided by its id for ever: these values must never change."""

from collections import Counter

import pytest

from contracts.errors import Invalid
from contracts.partitions import origin_in, partition_of, realm_of, require_same

GOLDEN = {
    "a": (0, 4, 44), "b": (1, 5, 37), "sb-1": (0, 2, 50), "demo": (0, 6, 54), "one": (1, 7, 47), "foobar": (0, 0, 40),
    "sb-1a1eca66adfcf9d35080378b492": (1, 3, 35), "Z" * 64: (1, 5, 5),
}  # fmt: skip
"""Of 2, 8 and 64 partitions."""


@pytest.mark.parametrize(("sandbox", "expected"), GOLDEN.items())
def test_a_sandbox_is_where_it_has_always_been(sandbox: str, expected: tuple[int, ...]) -> None:
    assert tuple(partition_of(sandbox, count) for count in (2, 8, 64)) == expected


def test_it_is_the_hash_that_others_call_by_the_same_name() -> None:
    """The values that its authors publish."""
    whole = 1 << 32
    assert (partition_of("a", whole), partition_of("foobar", whole)) == (0xE40C292C, 0xBF9CF968)


def test_an_undivided_log_has_everything_in_its_only_part() -> None:
    assert {partition_of(sandbox, 1) for sandbox in GOLDEN} == {0}


@pytest.mark.parametrize("count", [2, 3, 4, 7, 16])
def test_sandboxes_are_spread_evenly(count: int) -> None:
    found = Counter(partition_of(f"sb-{number:x}", count) for number in range(10_000))
    assert set(found) == set(range(count))
    assert max(found.values()) < 1.2 * 10_000 / count


def test_a_partition_is_called_after_its_tenant() -> None:
    assert (realm_of("", 3), realm_of("acme", 0)) == ("p3", "acme-p0")


def test_a_fork_is_beside_its_origin() -> None:
    require_same("sb-1", "demo", 4)
    with pytest.raises(Invalid, match="another partition"):
        require_same("a", "one", 4)


@pytest.mark.parametrize(
    ("spec", "origin"),
    [
        (b"{}", None),
        (b'{"workspace": {"source": {"kind": "git", "repository": "/r"}}}', None),
        (b'{"workspace": {"source": {"kind": "fork", "sandbox": "sb-1", "sequence": 3}}}', "sb-1"),
        (b'{"workspace": null}', None),
        (b"[1]", None),
        (b"{", None),
    ],
)
def test_the_origin_of_a_specification_is_found_whatever_somebody_typed(spec: bytes, origin: str | None) -> None:
    assert origin_in(spec) == origin
