"""Blocked, then set, then passthrough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import Invalid
from contracts.spec import ALWAYS_BLOCKED, Environment
from infra.sandbox.environment import CREDENTIALS, SandboxOwn, build_environment

OWN = SandboxOwn("/usr/bin:/bin", "/workspace", "/bin/bash", "sandbox", "1.2.3", "/workspace")
NAMES = st.sampled_from([*ALWAYS_BLOCKED, *CREDENTIALS, "PATH", "TERM", "A", "B", "CLOCHE_X"])
VALUES = st.dictionaries(NAMES, st.just("host"))


def test_the_sandbox_is_marked_and_has_its_own_places() -> None:
    env = build_environment(
        Environment(), {"PATH": "/root/bin", "HOME": "/root", "TERM": "xterm", "EDITOR": "vi"}, OWN
    ).env
    assert env == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/workspace",
        "SHELL": "/bin/bash",
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "IS_SANDBOXED": "true",
        "SANDBOX_VERSION": "1.2.3",
        "ALLOWED_ROOT_DIRECTORY": "/workspace",
    }


def test_set_wins_over_passthrough_and_the_sandboxs_own_but_not_over_its_marks() -> None:
    given_values = {"TERM": "dumb", "PATH": "/opt/bin", "IS_SANDBOXED": "false", "NEW": "1"}
    env = build_environment(Environment(set=given_values), {"TERM": "xterm"}, OWN).env
    assert (env["TERM"], env["PATH"], env["IS_SANDBOXED"], env["NEW"]) == ("dumb", "/opt/bin", "true", "1")


def test_blocked_wins_over_everything_and_is_reported_when_asked_for() -> None:
    policy = Environment(passthrough=("JWT_SECRET", "MINE", "OK"), set={"DB_PASSWORD": "x"}, blocked=("MINE",))
    built = build_environment(policy, {"JWT_SECRET": "1", "MINE": "2", "OK": "3", "PRIVATE_KEY": "4"}, OWN)
    assert built.blocked == ("DB_PASSWORD", "JWT_SECRET", "MINE")
    assert built.env["OK"] == "3"
    assert not built.env.keys() & {"DB_PASSWORD", "JWT_SECRET", "MINE", "PRIVATE_KEY"}


def test_the_safety_list_holds_even_when_the_spec_names_none() -> None:
    built = build_environment(
        Environment(passthrough=ALWAYS_BLOCKED, blocked=()), dict.fromkeys(ALWAYS_BLOCKED, "x"), OWN
    )
    assert not built.env.keys() & set(ALWAYS_BLOCKED)
    assert set(built.blocked) == set(ALWAYS_BLOCKED)


def test_credentials_pass_only_by_name() -> None:
    host = {"GITHUB_TOKEN": "t", "NPM_TOKEN": "n", "EDITOR": "vi"}
    assert "GITHUB_TOKEN" not in build_environment(Environment(inherit_all=True), host, OWN).env
    env = build_environment(Environment(inherit_all=True, passthrough=("GITHUB_TOKEN",)), host, OWN).env
    assert (env["GITHUB_TOKEN"], env["EDITOR"]) == ("t", "vi")
    assert "NPM_TOKEN" not in env


def test_what_is_not_text_or_not_a_name_is_left_out() -> None:
    host = {"RAW": "\udcff", "BASH_FUNC_x%%": "() { :; }", "": "x", "FINE": "ü"}
    env = build_environment(Environment(inherit_all=True), host, OWN).env
    assert env["FINE"] == "ü"
    assert not env.keys() & {"RAW", "BASH_FUNC_x%%", ""}


def test_a_value_that_no_process_can_have_is_invalid() -> None:
    with pytest.raises(Invalid, match=r"environment\.set\.A"):
        build_environment(Environment(set={"A": "x\0y"}), {}, OWN)


@given(host=VALUES, passthrough=st.lists(NAMES), chosen=VALUES, blocked=st.lists(NAMES), everything=st.booleans())
def test_no_policy_lets_a_blocked_host_value_through(
    host: dict[str, str], passthrough: list[str], chosen: dict[str, str], blocked: list[str], everything: bool
) -> None:
    policy = Environment(passthrough=tuple(passthrough), set=chosen, blocked=tuple(blocked), inherit_all=everything)
    built = build_environment(policy, host, OWN)
    refused = {*ALWAYS_BLOCKED, *blocked}
    assert not [name for name, value in built.env.items() if name in refused and value == "host"]
    assert set(built.blocked) <= refused
