"""compose.yaml as the program reads it: what each service may do, and that no more is given than is explained."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.keeper import protocol
from tests.compose.image import ROOT
from tests.compose.stack import ONCE, TOOLS, Stack

CAPABILITIES = {
    "keeper": {"KILL"},
    "spawner": {"CHOWN", "DAC_OVERRIDE", "FOWNER"},
    "executor": {"CHOWN", "DAC_OVERRIDE", "FOWNER"},
    "file_watcher": {"DAC_OVERRIDE"},
    "health_monitor": {"DAC_READ_SEARCH"},
    "egress": {"SYS_ADMIN", "SYS_PTRACE"},
    "backup": {"DAC_OVERRIDE"},
    "restore": {"CHOWN", "DAC_OVERRIDE"},
}
ENGINE = {"keeper", "spawner", "executor", "health_monitor", "egress"}
ROOT_USERS = ENGINE | {"prepare", "agent", "file_watcher", "backup", "restore"}
ADMINS = {"provision", "backup", "restore"}
WRITES = {
    "prepare": {"HOME"},
    "nats": {"store"},
    **{name: {"HOME/node", "ENGINE"} for name in ENGINE},
    "file_watcher": {"HOME/node/run"},
    "agent": {"HOME/agent"},
    **{name: {name} for name in ("guardian", "replay", "gateway")},
    "backup": {"HOME/backups"},
    "restore": {"replay", "gateway", "HOME/node/vault"},
}
"""All that each can change outside of its container. Whoever is not named can change nothing."""
READS = {
    "nats": {"HOME/nats"},
    "executor": {"/sys/fs/cgroup"},
    "file_watcher": {"HOME/node"},
    "agent": {"HOME/node/identity", "HOME/node/vault"},
    "backup": {"replay", "gateway", "HOME/node/vault"},
    "restore": {"HOME/backups"},
}
"""What each can look at besides, and its credentials."""
NETWORKS = {"prepare": set(), "keeper": set(), "egress": {"bus", "out"}, "gateway": {"bus", "front"}}
"""Where it is more or less than the bus."""
TEXT = (ROOT / "compose.yaml").read_text()


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = Stack(tmp_path_factory.mktemp("home"), "cloche-test/none").config()["services"]
    return found


def test_the_services_are_those_that_a_node_has(services: dict[str, Any]) -> None:
    written = {place.parent.name for place in (ROOT / "services").glob("*/__main__.py")} - {"cli"}
    assert set(services) - set(TOOLS) == written | {"nats", "keeper", *ONCE}


def test_every_service_is_closed_and_bounded(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert not service.get("privileged"), name
        assert {"mem_limit", "cpus", "pids_limit", "logging", "stop_grace_period"} <= set(service), name
        assert service["restart"] == ("no" if name in {*ONCE, *TOOLS} else "unless-stopped"), name
        assert "test" in service["healthcheck"] or name in {*ONCE, *TOOLS}, name


def test_nobody_has_a_capability_a_user_or_the_engine_that_it_was_not_meant_to_have(services: dict[str, Any]) -> None:
    given = {name: set(service["cap_add"]) for name, service in services.items() if service.get("cap_add")}
    assert given == CAPABILITIES
    assert {name for name, service in services.items() if str(service.get("user", "")).startswith("0")} == ROOT_USERS
    assert {name for name, service in services.items() if "docker.sock" in str(service.get("volumes"))} == ENGINE
    assert {name for name, service in services.items() if "DOCKER_HOST" in str(service.get("environment"))} < ENGINE
    assert {name for name, service in services.items() if "pid" in service} == {"egress", "executor", "keeper"}


def test_every_capability_stands_beside_its_reason() -> None:
    for name in set().union(*CAPABILITIES.values()):
        for line in re.findall(rf"^ *- {name}\b.*$", TEXT, re.MULTILINE):
            assert re.search(rf"- {name} # \w.{{10,}}", line), line


def test_each_service_sees_the_password_of_one_user_alone() -> None:
    for name, service in yaml.safe_load(TEXT)["services"].items():
        mounted = re.findall(r"credentials/(\w+):|(nats/secrets):|(cloche\}/nats):", str(service.get("volumes", "")))
        found = {next(filter(None, each)) for each in mounted}
        own = {"cli": {"client"}, "nats": {"cloche}/nats"}, "keeper": set(), "prepare": set()}
        own |= {admin: {"admin"} for admin in ADMINS}
        assert found == own.get(name, {name}), name


def test_nobody_sees_or_changes_more_of_the_host_than_it_works_with() -> None:
    for name, service in yaml.safe_load(TEXT)["services"].items():
        mounts = {"rw": set[str](), "ro": set[str]()}
        for volume in service.get("volumes", ()):
            plain = volume.replace("${CLOCHE_HOME:-/var/lib/cloche}", "HOME").replace(
                "${CLOCHE_ENGINE:-/var/run/docker.sock}", "ENGINE"
            )
            source, _, *mode = plain.split(":")
            mounts[mode[0] if mode else "rw"].add(source)
        given = {source for source in mounts["ro"] if not source.startswith("HOME/credentials/")}
        assert mounts["rw"] == WRITES.get(name, set()), name
        assert given == READS.get(name, set()), name


def test_each_is_on_the_networks_that_it_speaks_on_and_only_egress_has_a_way_out() -> None:
    written = yaml.safe_load(TEXT)
    for name, service in written["services"].items():
        assert set(service.get("networks", ())) == NETWORKS.get(name, {"bus"}), name
    networks = written["networks"]
    closed = {name for name, network in networks.items() if network and network.get("internal")}
    silent = {name for name, network in networks.items() if network and "driver_opts" in network}
    assert (closed, silent, set(networks)) == ({"bus"}, {"front"}, {"bus", "front", "out"})


def test_nobody_but_who_needs_it_has_the_administrators_password() -> None:
    services = yaml.safe_load(TEXT)["services"]
    holders = {name for name, service in services.items() if "credentials/admin" in str(service.get("volumes"))}
    assert holders == ADMINS
    started = holders - set(TOOLS)
    assert started == {"provision"}, "of what `up` starts"
    assert services["provision"]["restart"] == "no"


def test_an_override_for_other_services_does_not_replace_the_keeper(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "home", "cloche-test/none")
    override = tmp_path / "override.yaml"
    override.write_text("services: {gateway: {environment: {CLOCHE_LOG_LEVEL: INFO}}}")
    asked = ("config", "--hash", "keeper")
    assert stack.run(*asked) == stack.run("--file", str(override), *asked)


def test_a_new_version_of_the_services_leaves_the_keepers_image_alone() -> None:
    services = yaml.safe_load(TEXT)["services"]
    assert services["keeper"]["image"] == f"${{CLOCHE_KEEPER_IMAGE:-cloche-keeper:{protocol.VERSION}}}"
    assert services["keeper"]["build"] == services["prepare"]["build"], "the first `up` makes it, too"
    named = {name for name, service in services.items() if "CLOCHE_KEEPER_IMAGE" in service["image"]}
    assert named == {"keeper"}


def test_the_base_is_chosen_by_an_argument() -> None:
    recipe = Path(ROOT / "infra/images/cloche/Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", recipe, re.MULTILINE) == ["${BASE}", "${BASE}"]
