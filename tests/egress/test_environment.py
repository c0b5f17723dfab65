"""Which variables lead the programs of a restricted sandbox to its only way out, and what may not come in by one."""

import pytest

from contracts.spec import Environment, Network, NetworkMode, SandboxSpec, Secret
from infra.sandbox.environment import SandboxOwn, build_environment
from infra.sandbox.side_door import block_secrets
from infra.sandbox.way_out import way_out

OWN = SandboxOwn(path="/bin", home="/workspace", shell="/bin/sh", user="sandbox", version="1", root="/workspace")
PROXY = "http://127.0.0.1:3128"
ANTHROPIC = Secret(name="anthropic", host="api.anthropic.com", env="ANTHROPIC_BASE_URL", header="x-api-key")


def spec_of(**values: object) -> SandboxSpec:
    network = Network(mode=NetworkMode(str(values.pop("mode", "restricted"))))
    return SandboxSpec(network=network, **values)  # type: ignore[arg-type]


def inside(spec: SandboxSpec, host: dict[str, str]) -> dict[str, str]:
    return build_environment(spec.environment, host, OWN, way_out(spec)).env


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
def test_every_spelling_names_the_proxy_whatever_the_host_says(name: str) -> None:
    asked = Environment(passthrough=(name,))
    assert inside(spec_of(environment=asked), {name: "http://proxy.corp:8080"})[name] == PROXY


def test_loopback_is_spoken_to_directly_and_node_is_told_to_look() -> None:
    env = inside(spec_of(), {})
    assert env["NO_PROXY"] == env["no_proxy"] == "localhost,127.0.0.1,::1"
    assert env["NODE_USE_ENV_PROXY"] == "1"


@pytest.mark.parametrize("mode", ["none", "full"])
def test_without_a_restricted_network_there_is_no_such_variable(mode: str) -> None:
    assert way_out(spec_of(mode=mode, secrets=(ANTHROPIC,))) == {}


def test_a_route_wins_over_what_the_host_passes_and_set_wins_over_the_route() -> None:
    host = {"ANTHROPIC_BASE_URL": "https://corp.example/anthropic"}
    assert inside(spec_of(secrets=(ANTHROPIC,)), host)["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:3129/anthropic"
    chosen = Environment(set={"ANTHROPIC_BASE_URL": "http://localhost:1", "no_proxy": "*"})
    env = inside(spec_of(secrets=(ANTHROPIC,), environment=chosen), host)
    assert (env["ANTHROPIC_BASE_URL"], env["no_proxy"]) == ("http://localhost:1", "*")


def test_a_blocked_name_is_not_set_for_the_way_out_either() -> None:
    spec = spec_of(environment=Environment(blocked=("ALL_PROXY",)))
    assert "ALL_PROXY" not in way_out(spec)
    assert "ALL_PROXY" not in inside(spec, {})


def test_a_variable_that_holds_a_secret_is_blocked_and_reported() -> None:
    asked = Environment(
        passthrough=("GITHUB_TOKEN", "TERM", "CLOCHE_SECRET_X"), set={"HEADER": "Bearer s3cret-Value", "OK": "yes"}
    )
    host = {"GITHUB_TOKEN": "s3cret-Value", "TERM": "xterm", "CLOCHE_SECRET_X": "y", "UNASKED": "s3cret-Value"}
    spec = block_secrets(spec_of(environment=asked), host, lambda text: "s3cret-Value" in text)
    built = build_environment(spec.environment, host, OWN, way_out(spec))
    assert built.blocked == ("CLOCHE_SECRET_X", "GITHUB_TOKEN", "HEADER")
    assert not {"s3cret-Value", "Bearer s3cret-Value", "y"} & set(built.env.values())
    assert (built.env["TERM"], built.env["OK"]) == ("xterm", "yes")


def test_inheriting_everything_leaves_secrets_out() -> None:
    host = {"SOME_TOKEN": "s3cret-Value", "PLAIN": "1"}
    spec = block_secrets(spec_of(environment=Environment(inherit_all=True)), host, lambda text: text == "s3cret-Value")
    env = inside(spec, host)
    assert "SOME_TOKEN" not in env
    assert env["PLAIN"] == "1"
