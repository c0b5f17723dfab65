import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import Invalid
from contracts.spec import (
    ALWAYS_BLOCKED,
    DEFAULT_HOSTS,
    DEFAULT_PASSTHROUGH,
    CopyDirectory,
    Environment,
    GitWorktree,
    Isolation,
    Network,
    NetworkMode,
    Resources,
    SandboxSpec,
    Workspace,
    merge,
)
from tests.contracts.properties import calm
from tests.contracts.samples import SPEC

DEFAULTS = SandboxSpec()
ENV_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
TEXT = st.text(max_size=20).filter(lambda text: "\x00" not in text)


def laid(given_spec: dict[str, Any], defaults: SandboxSpec = DEFAULTS) -> SandboxSpec:
    return merge(defaults, json.dumps(given_spec).encode())


@st.composite
def node_defaults(draw: st.DrawFn) -> SandboxSpec:
    names = draw(st.lists(ENV_NAMES, unique=True, max_size=5))
    return SandboxSpec(
        isolation=draw(st.none() | st.sampled_from(Isolation)),
        resources=Resources(
            memory_mb=draw(st.integers(512, 32_768)),
            cpus=draw(st.floats(0.5, 16)),
            pids=draw(st.integers(32, 4096)),
        ),
        network=Network(mode=draw(st.sampled_from(NetworkMode)), allowed_ports=draw(st.tuples(st.integers(1, 65_535)))),
        environment=Environment(
            passthrough=tuple(names),
            set=draw(st.dictionaries(ENV_NAMES, TEXT, max_size=3)),
            blocked=(*ALWAYS_BLOCKED, *(name for name in names if name not in ALWAYS_BLOCKED)),
        ),
        labels=draw(st.dictionaries(st.text(min_size=1, max_size=5), TEXT, max_size=3)),
    )


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    optional = {
        "isolation": st.sampled_from(["docker", "local", None]),
        "resources": st.fixed_dictionaries({}, optional={"pids": st.integers(32, 4096), "cpus": st.floats(0.5, 16)}),
        "network": st.fixed_dictionaries({}, optional={"allowed_hosts": st.lists(st.just("a.org"), max_size=2)}),
        "environment": st.fixed_dictionaries(
            {},
            optional={
                "passthrough": st.lists(ENV_NAMES, max_size=4),
                "blocked": st.lists(ENV_NAMES, max_size=4),
                "set": st.dictionaries(ENV_NAMES, TEXT, max_size=3),
            },
        ),
        "labels": st.dictionaries(st.sampled_from(["kind", "team", "x"]), TEXT),
    }
    given_spec: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=optional))
    return given_spec


@calm
@given(node_defaults())
def test_nothing_given_leaves_the_defaults(defaults: SandboxSpec) -> None:
    assert merge(defaults, b"{}") == defaults


@calm
@given(node_defaults(), requests())
def test_the_same_wish_laid_twice_is_laid_once(defaults: SandboxSpec, wish: dict[str, Any]) -> None:
    once = laid(wish, defaults)
    assert laid(wish, once) == once


@calm
@given(node_defaults(), requests())
def test_blocked_names_only_grow_and_no_list_of_names_repeats_itself(
    defaults: SandboxSpec, wish: dict[str, Any]
) -> None:
    got = laid(wish, defaults).environment
    asked = wish.get("environment", {}).get("blocked", [])
    assert set(got.blocked) == {*ALWAYS_BLOCKED, *defaults.environment.blocked, *asked}
    assert len(set(got.blocked)) == len(got.blocked)
    assert len(set(got.passthrough)) == len(got.passthrough)


def test_defaults_are_those_of_the_design() -> None:
    assert msgspec.to_builtins(DEFAULTS.resources) == {
        "memory_mb": 4096,
        "cpus": 2.0,
        "pids": 256,
        "disk_mb": 10_240,
        "timeout_ms": 3_600_000,
    }
    assert DEFAULTS.network.mode == "restricted"
    assert DEFAULTS.network.allowed_hosts == DEFAULT_HOSTS
    assert DEFAULTS.network.allowed_ports == (443, 80)
    assert DEFAULTS.environment.inherit_all is False
    assert DEFAULTS.workspace.path == "/workspace"
    assert DEFAULTS.isolation is None
    assert DEFAULTS.docker.image == "node:22-slim"


BOUNDS = [
    ("resources", "memory_mb", 512, 32_768, 1),
    ("resources", "cpus", 0.5, 16, 0.001),
    ("resources", "pids", 32, 4096, 1),
    ("resources", "disk_mb", 1024, 102_400, 1),
    ("resources", "timeout_ms", 60_000, 86_400_000, 1),
]


@pytest.mark.parametrize(("part", "field", "least", "most", "step"), BOUNDS)
def test_a_number_may_be_at_its_bounds_and_not_beyond(
    part: str, field: str, least: float, most: float, step: float
) -> None:
    for good in (least, most):
        assert getattr(getattr(laid({part: {field: good}}), part), field) == good
    for bad in (least - step, most + step):
        with pytest.raises(Invalid, match=rf"\$\.{part}\.{field}"):
            laid({part: {field: bad}})


def _names(count: int) -> list[str]:
    return [f"N{index}" for index in range(count)]


LENGTHS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"network": {"allowed_ports": [1]}}, {"network": {"allowed_ports": [0]}}),
    ({"network": {"allowed_ports": [65_535]}}, {"network": {"allowed_ports": [65_536]}}),
    ({"network": {"allowed_hosts": ["a"] * 1000}}, {"network": {"allowed_hosts": ["a"] * 1001}}),
    ({"network": {"allowed_hosts": ["a." * 126 + "a"]}}, {"network": {"allowed_hosts": ["a" * 254]}}),
    ({"network": {"allowed_hosts": ["*.a.org"]}}, {"network": {"allowed_hosts": ["a.*.org"]}}),
    ({"network": {"allowed_hosts": ["a.org"]}}, {"network": {"allowed_hosts": ["a.org\n"]}}),
    ({"network": {"allowed_hosts": ["::1"]}}, {"network": {"allowed_hosts": [""]}}),
    ({"environment": {"set": {"N" * 128: ""}}}, {"environment": {"set": {"N" * 129: ""}}}),
    ({"environment": {"set": {"_N": "v" * 65_536}}}, {"environment": {"set": {"_N": "v" * 65_537}}}),
    ({"environment": {"set": {"N": "a\nb"}}}, {"environment": {"set": {"N": "a\x00b"}}}),
    ({"environment": {"set": {"N": "a\n"}}}, {"environment": {"set": {"N\n": "a"}}}),
    (
        {"environment": {"set": dict.fromkeys(_names(500), "")}},
        {"environment": {"set": dict.fromkeys(_names(501), "")}},
    ),
    (
        {"environment": {"blocked": _names(500 - len(ALWAYS_BLOCKED))}},
        {"environment": {"blocked": _names(501 - len(ALWAYS_BLOCKED))}},
    ),
    (
        {"environment": {"passthrough": _names(500 - len(DEFAULT_PASSTHROUGH))}},
        {"environment": {"passthrough": _names(501 - len(DEFAULT_PASSTHROUGH))}},
    ),
    ({"environment": {"passthrough": ["A"]}}, {"environment": {"passthrough": ["1A"]}}),
    (
        {"secrets": [{"name": name, "host": "h"} for name in _names(50)]},
        {"secrets": [{"name": name, "host": "h"} for name in _names(51)]},
    ),
    ({"secrets": [{"name": "n" * 64, "host": "h"}]}, {"secrets": [{"name": "n" * 65, "host": "h"}]}),
    ({"secrets": [{"name": "n", "host": "h"}]}, {"secrets": [{"name": "", "host": "h"}]}),
    (
        {"secrets": [{"name": "n", "host": "h", "header": "H" * 100}]},
        {"secrets": [{"name": "n", "host": "h", "header": "H" * 101}]},
    ),
    (
        {"secrets": [{"name": "n", "host": "h", "header": "X-A"}]},
        {"secrets": [{"name": "n", "host": "h", "header": "X-A\n"}]},
    ),
    (
        {"secrets": [{"name": "n", "host": "h", "template": "{secret}" + "t" * 492}]},
        {"secrets": [{"name": "n", "host": "h", "template": "{secret}" + "t" * 493}]},
    ),
    *(
        ({"secrets": [{"name": "n", "host": "h"}]}, {"secrets": [{"name": "n", "host": "h", **wrong}]})
        for wrong in (
            {"template": "Bearer"},
            {"template": "{secret}{secret}"},
            {"template": "{secret}\r\nX: y"},
            {"template": "{secret} \u00e9"},
            {"header": "Content-Length"},
            {"header": "HOST"},
            {"host": "127.1"},
            {"host": "a..b"},
        )
    ),
    (
        {"network": {"mode": "none"}, "secrets": [{"name": "n", "host": "h"}]},
        {"network": {"mode": "full"}, "secrets": [{"name": "n", "host": "h"}]},
    ),
    ({"secrets": [{"name": "n", "host": "h"}]}, {"secrets": [{"name": "n", "host": "h"}, {"name": "n", "host": "i"}]}),
    ({"workspace": {"path": "/" + "a" * 4095}}, {"workspace": {"path": "/" + "a" * 4096}}),
    ({"workspace": {"path": "/a"}}, {"workspace": {"path": "a"}}),
    ({"workspace": {"path": "/a"}}, {"workspace": {"path": "/a\x00"}}),
    (
        {"workspace": {"source": {"kind": "fork", "sandbox": "a", "sequence": 1}}},
        {"workspace": {"source": {"kind": "fork", "sandbox": "a", "sequence": 0}}},
    ),
    (
        {"workspace": {"source": {"kind": "git", "repository": "/r", "branch": "b" * 200}}},
        {"workspace": {"source": {"kind": "git", "repository": "/r", "branch": "b" * 201}}},
    ),
    ({"permissions": {"read": ["a"] * 200}}, {"permissions": {"read": ["a"] * 201}}),
    ({"permissions": {"write": ["a"] * 200}}, {"permissions": {"write": ["a"] * 201}}),
    ({"permissions": {"read": ["a/b"]}}, {"permissions": {"read": ["/a"]}}),
    ({"permissions": {"read": ["a" * 4096]}}, {"permissions": {"read": ["a" * 4097]}}),
    ({"docker": {"image": "i" * 500}}, {"docker": {"image": "i" * 501}}),
    ({"docker": {"image": "i"}}, {"docker": {"image": ""}}),
    (
        {"docker": {"mounts": [{"source": "/a", "target": "/b"}] * 50}},
        {"docker": {"mounts": [{"source": "/a", "target": "/b"}] * 51}},
    ),
    (
        {"devcontainer": {"features": {name: {} for name in _names(50)}}},
        {"devcontainer": {"features": {name: {} for name in _names(51)}}},
    ),
    ({"agent_id": "a" * 64}, {"agent_id": "a" * 65}),
    ({"project_id": "a"}, {"project_id": ""}),
    ({"task_id": "a"}, {"task_id": "a\n"}),
    ({"labels": dict.fromkeys(_names(100), "")}, {"labels": dict.fromkeys(_names(101), "")}),
    ({"labels": {"n" * 200: "v" * 1000}}, {"labels": {"n" * 200: "v" * 1001}}),
    ({"labels": {"n" * 200: ""}}, {"labels": {"n" * 201: ""}}),
]


@pytest.mark.parametrize(("good", "bad"), LENGTHS, ids=[f"{number}" for number in range(len(LENGTHS))])
def test_everything_else_is_bounded_too(good: dict[str, Any], bad: dict[str, Any]) -> None:
    laid(good)
    with pytest.raises(Invalid, match="sandbox specification"):
        laid(bad)


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        ({"memory": 1}, "`memory`"),
        ({"resources": {"memory": 1}}, r"`memory`.*\$\.resources"),
        ({"docker": {"mounts": [{"source": "/a", "target": "/b", "ro": True}]}}, "`ro`"),
        ({"workspace": {"source": {"kind": "git", "repository": "/r", "depth": 1}}}, "`depth`"),
    ],
)
def test_an_unknown_field_is_named(wish: dict[str, Any], named: str) -> None:
    with pytest.raises(Invalid, match=named):
        laid(wish)


@pytest.mark.parametrize(
    "wish",
    [
        {"resources": {"pids": "64"}},
        {"resources": {"pids": 64.0}},
        {"resources": {"cpus": "1"}},
        {"resources": {"pids": True}},
        {"resources": None},
        {"resources": []},
        {"environment": {"inherit_all": 1}},
        {"environment": {"inherit_all": "true"}},
        {"environment": {"blocked": "A"}},
        {"environment": {"blocked": None}},
        {"environment": {"set": {"A": 1}}},
        {"network": {"allowed_ports": ["443"]}},
        {"network": {"mode": "open"}},
        {"isolation": "none"},
        {"labels": {"a": 1}},
        {"workspace": {"source": {"kind": "ftp"}}},
        {"workspace": {"source": {"path": "/a"}}},
    ],
    ids=str,
)
def test_types_are_strict(wish: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=r"at `\$"):
        laid(wish)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b"{",
        b"{}{}",
        b"[" * 100_000,
        b'{"labels":{"a":"\xff"}}',
        b'{"labels":{"a":"\\ud800"}}',
        b'{"devcontainer":{"features":' + b'{"a":' * 100_000,
        b'{"resources":{"cpus":1e999}}',
        b'{"resources":{"cpus":NaN}}',
    ],
    ids=range(12),
)
def test_nonsense_is_invalid_and_never_a_crash(raw: bytes) -> None:
    with pytest.raises(Invalid):
        merge(DEFAULTS, raw)


def test_environment_lists_grow_without_duplicates() -> None:
    got = laid({"environment": {"passthrough": ["PATH", "EDITOR", "EDITOR"], "blocked": ["EDITOR", "SECRET_KEY"]}})
    assert got.environment.passthrough == (*DEFAULT_PASSTHROUGH, "EDITOR")
    assert got.environment.blocked == (*ALWAYS_BLOCKED, "EDITOR")


def test_an_empty_list_of_blocked_names_unblocks_nothing() -> None:
    assert laid({"environment": {"blocked": []}}).environment.blocked == ALWAYS_BLOCKED


def test_not_even_the_defaults_of_a_node_can_unblock_a_name() -> None:
    careless = SandboxSpec(environment=Environment(blocked=("MINE",)))
    assert merge(careless, b"{}").environment.blocked == ("MINE", *ALWAYS_BLOCKED)


def test_network_lists_are_replaced_and_an_empty_one_allows_nothing() -> None:
    assert laid({"network": {"allowed_hosts": ["a.org"]}}).network.allowed_hosts == ("a.org",)
    closed = laid({"network": {"allowed_hosts": [], "allowed_ports": []}}).network
    assert (closed.allowed_hosts, closed.allowed_ports) == ((), ())


def test_values_and_labels_are_laid_over_one_by_one_whatever_their_names() -> None:
    defaults = SandboxSpec(environment=Environment(set={"A": "1", "kind": "x"}), labels={"a": "1"})
    got = laid({"environment": {"set": {"kind": "y"}}, "labels": {"kind": "tree"}}, defaults)
    assert got.environment.set == {"A": "1", "kind": "y"}
    assert got.labels == {"a": "1", "kind": "tree"}


def test_another_kind_of_source_replaces_the_default_whole() -> None:
    defaults = SandboxSpec(workspace=Workspace(path="/w", source=GitWorktree(repository="/r", ref="main")))
    got = laid({"workspace": {"source": {"kind": "directory", "path": "/src"}}}, defaults)
    assert got.workspace == Workspace(path="/w", source=CopyDirectory(path="/src"))
    assert laid({"workspace": {"source": None}}, defaults).workspace.source is None


def test_a_full_specification_survives_being_laid_over_the_defaults() -> None:
    got = merge(DEFAULTS, msgspec.json.encode(SPEC))
    assert got.environment.blocked == ALWAYS_BLOCKED
    same = msgspec.structs.replace(got, environment=SPEC.environment)
    assert same == SPEC
