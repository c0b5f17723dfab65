"""Devcontainer sandboxes on a real engine, made with the real CLI."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from contracts.errors import Invalid, SandboxCreationFailed, SandboxStartFailed
from contracts.spec import Environment, GitWorktree, Workspace
from infra.sandbox.base import SandboxState
from infra.sandbox.devcontainer.cli import SETTING
from infra.sandbox.devcontainer.provider import DevcontainerProvider
from infra.sandbox.devcontainer.record import DataFiles
from tests.devcontainer.rig import (
    docker,
    images_now,
    images_of,
    inside,
    is_of_a_feature,
    open_provider,
    request,
    require_cli,
    write_project,
)
from tests.images import busybox, shell_less
from tests.services.node import eventually

FEATURE = {
    ".devcontainer/feature/devcontainer-feature.json": """{
        "id": "feature", "version": "1.0.0", "name": "Feature",
        "options": {"word": {"type": "string", "default": "none"}},
        "containerEnv": {"FROM_FEATURE": "yes"},
        "postCreateCommand": "touch feature-ran"
    }""",
    ".devcontainer/feature/install.sh": "#!/bin/sh\necho word=$WORD > /installed; ls /sys/class/net >> /installed\n",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def provider(data: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DevcontainerProvider]:
    require_cli()
    async with open_provider(data) as opened:
        yield opened


async def test_a_project_runs_sealed_in_its_own_image(provider: DevcontainerProvider, tmp_path: Path) -> None:
    config = {"image": busybox(), "containerEnv": {"A": "1"}, "remoteEnv": {"B": "${containerEnv:A}2"}}
    created = await provider.create(request("life", write_project(tmp_path / "project", config)))
    await provider.start("life")
    status = await inside(provider, "life", "cat /proc/self/status; id; pwd; ls /sys/class/net; ls /var/run 2>&1; true")
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "uid=1000" in status
    assert "gid=1000" in status
    assert "\n/workspace\n" in status
    assert "\nlo\n" in status
    assert "eth0" not in status
    assert "docker.sock" not in status
    assert "Read-only" in await inside(provider, "life", "touch /escaped 2>&1 || true")
    await inside(provider, "life", "echo hello > /workspace/greeting")
    assert Path(created.host_workspace, "greeting").read_text() == "hello\n"
    env = await provider.environment("life")
    assert (env["A"], env["B"], env["IS_SANDBOXED"]) == ("1", "12", "true")


async def test_commands_of_the_project_run_once_and_at_each_start(
    provider: DevcontainerProvider, tmp_path: Path
) -> None:
    config = {
        "image": busybox(),
        "onCreateCommand": "id -u >> once; echo $IS_SANDBOXED >> once; touch /tmp/seen",
        "postCreateCommand": {"one": ["sh", "-c", "echo post >> created"], "two": "echo post >> created"},
        "postStartCommand": "echo start >> starts",
    }
    created = await provider.create(request("cycle", write_project(tmp_path / "project", config)))
    workspace = Path(created.host_workspace)
    assert not (workspace / "once").exists()
    await provider.start("cycle")
    await provider.start("cycle")
    assert (workspace / "once").read_text() == "1000\ntrue\n"
    assert (workspace / "created").read_text() == "post\npost\n"
    assert (workspace / "starts").read_text() == "start\n"
    await provider.stop("cycle", grace_s=1)
    await provider.start("cycle")
    assert (workspace / "starts").read_text() == "start\nstart\n"
    assert (workspace / "once").read_text() == "1000\ntrue\n"


async def test_commands_have_the_variables_and_nobody_on_the_host_reads_them(
    provider: DevcontainerProvider, tmp_path: Path
) -> None:
    secret = f"s3cret-{tmp_path.name}\n'two' $lines"
    wait = 'printf %s "$TOKEN" > told; until [ -e go ]; do sleep 0.05; done'
    config = {"image": busybox(), "onCreateCommand": {"one": wait, "two": ["sh", "-c", 'printf %s "$TOKEN" > too']}}
    wanted = request("hidden", write_project(tmp_path / "project", config))
    spec = msgspec.structs.replace(wanted.spec, environment=Environment(set={"TOKEN": secret}))
    created = await provider.create(msgspec.structs.replace(wanted, spec=spec))
    workspace = Path(created.host_workspace)
    starting = asyncio.create_task(provider.start("hidden"))
    await eventually(lambda: all((workspace / name).exists() for name in ("told", "too")))
    shown = [path for path in Path("/proc").glob("[0-9]*/cmdline") if secret.encode() in read_if_there(path)]
    (workspace / "go").touch()
    await starting
    assert [(workspace / name).read_text() for name in ("told", "too")] == [secret, secret]
    assert shown == []


def read_if_there(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_what_a_failing_command_printed_is_told_without_the_values_of_variables(
    provider: DevcontainerProvider, tmp_path: Path
) -> None:
    config = {"image": busybox(), "postCreateCommand": "echo the token is $TOKEN; exit 7"}
    wanted = request("loud", write_project(tmp_path / "project", config))
    spec = msgspec.structs.replace(wanted.spec, environment=Environment(set={"TOKEN": "s3cret-value"}))
    await provider.create(msgspec.structs.replace(wanted, spec=spec))
    with pytest.raises(SandboxStartFailed, match="the token is") as told:
        await provider.start("loud")
    assert "s3cret-value" not in str(told.value)


async def test_a_failing_command_fails_the_start_with_what_it_printed(
    provider: DevcontainerProvider, tmp_path: Path
) -> None:
    config = {"image": busybox(), "postCreateCommand": "echo the reason is here; exit 7"}
    await provider.create(request("failing", write_project(tmp_path / "project", config)))
    with pytest.raises(SandboxStartFailed, match="the reason is here"):
        await provider.start("failing")
    seen = await provider.inspect("failing")
    assert seen is not None
    assert seen.state is SandboxState.STOPPED


async def test_features_of_project_and_specification_are_built_in_without_network(
    provider: DevcontainerProvider, tmp_path: Path, data: Path
) -> None:
    before = images_now()
    project = write_project(tmp_path / "project", {"image": busybox()}, FEATURE)
    created = await provider.create(request("feature", project, {"./feature": {"word": "hello"}}))
    await provider.start("feature")
    assert await inside(provider, "feature", "cat /installed") == "word=hello\nlo\n"
    assert (await provider.environment("feature"))["FROM_FEATURE"] == "yes"
    assert Path(created.host_workspace, "feature-ran").exists()
    made = set(images_of(data))
    assert len(made) == 2
    await provider.remove("feature")
    assert images_of(data) == []
    assert [image for image in images_now() - before if is_of_a_feature(image)] == []


async def test_a_dockerfile_of_the_project_is_built(provider: DevcontainerProvider, tmp_path: Path) -> None:
    dockerfile = f"FROM {busybox()} AS wanted\nARG WORD\nCOPY here.txt /\nRUN echo $WORD >> /here.txt\nFROM scratch\n"
    build = {"dockerfile": "Dockerfile", "context": "..", "args": {"WORD": "${localEnv:HOME}there"}, "target": "wanted"}
    files = {".devcontainer/Dockerfile": dockerfile, "here.txt": "here\n"}
    await provider.create(request("built", write_project(tmp_path / "project", {"build": build}, files)))
    await provider.start("built")
    assert await inside(provider, "built", "cat /here.txt") == "here\nthere\n"


async def test_a_repository_brings_its_configuration_and_is_a_worktree_inside(
    provider: DevcontainerProvider, tmp_path: Path, data: Path
) -> None:
    project = write_project(tmp_path / "project", {"image": busybox(), "postCreateCommand": "cat .git/HEAD > head"})
    author = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    for argv in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "all")):
        subprocess.run(["git", "-C", str(project), *argv], check=True, timeout=30)
    asked = request("repository", None)
    source = GitWorktree(repository=str(project), branch="agent/a/t")
    spec = msgspec.structs.replace(asked.spec, workspace=Workspace(source=source))
    created = await provider.create(msgspec.structs.replace(asked, spec=spec))
    await provider.start("repository")
    assert "agent/a/t" in Path(created.host_workspace, "head").read_text()
    assert not (DataFiles(data.resolve()).directory("repository") / "checkout").exists()


async def test_nothing_runs_as_root_whatever_shell_the_image_has(
    provider: DevcontainerProvider, tmp_path: Path
) -> None:
    shell = '#!/bin/busybox sh\\ntouch /tmp/ran-as-$(id -u)\\nexec /bin/busybox sh "$@"\\n'
    dockerfile = f"FROM {busybox()}\nRUN rm /bin/sh && printf '{shell}' > /bin/sh && chmod 755 /bin/sh\n"
    config = {"build": {"dockerfile": "Dockerfile"}, "postCreateCommand": "true"}
    project = write_project(tmp_path / "project", config, {".devcontainer/Dockerfile": dockerfile})
    await provider.create(request("shell", project))
    await provider.start("shell")
    assert (await inside(provider, "shell", "ls /tmp")).split() == ["ran-as-1000"]


async def test_commands_in_an_image_without_a_shell_are_told(provider: DevcontainerProvider, tmp_path: Path) -> None:
    config = {"image": shell_less(), "postCreateCommand": "true"}
    await provider.create(request("shell-less", write_project(tmp_path / "project", config)))
    with pytest.raises(SandboxStartFailed, match="need /bin/sh"):
        await provider.start("shell-less")


async def test_a_feature_that_cannot_be_installed_is_told_with_its_words_and_leaves_nothing(
    provider: DevcontainerProvider, tmp_path: Path, data: Path
) -> None:
    before = images_now()
    broken = {**FEATURE, ".devcontainer/feature/install.sh": "#!/bin/sh\necho no luck today >&2\nexit 3\n"}
    project = write_project(tmp_path / "project", {"image": busybox(), "features": {"./feature": {}}}, broken)
    with pytest.raises(SandboxCreationFailed, match="no luck today"):
        await provider.create(request("broken", project))
    assert [image for image in images_now() - before if is_of_a_feature(image)] == []
    assert await provider.inspect("broken") is None
    assert images_of(data) == []
    assert DataFiles(data.resolve()).sandbox_ids() == ()


async def test_a_feature_that_no_registry_gives_is_told_by_name(provider: DevcontainerProvider, tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", {"image": busybox()})
    with pytest.raises(SandboxCreationFailed, match="localhost:1/nobody/nothing"):
        await provider.create(request("unreachable", project, {"localhost:1/nobody/nothing:1": {}}))


async def test_an_image_that_nobody_has_is_told_by_name(provider: DevcontainerProvider, tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", {"image": "localhost:1/nobody/nothing:1"})
    with pytest.raises(SandboxCreationFailed, match="localhost:1/nobody/nothing:1"):
        await provider.create(request("absent", project))


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("privileged", '{\\"privileged\\":true}'),
        ("mounts", '{\\"mounts\\":[\\"type=bind,source=/,target=/host\\"]}'),
        ("capAdd", '[{\\"id\\":\\"x\\",\\"capAdd\\":[\\"SYS_ADMIN\\"]}]'),
        ("securityOpt", '[{\\"securityOpt\\":[\\"seccomp=unconfined\\"]}]'),
    ],
)
async def test_an_image_that_asks_for_more_is_refused(
    provider: DevcontainerProvider, tmp_path: Path, name: str, entry: str
) -> None:
    tag = f"cloche-test/asks-{os.getpid()}:{name.lower()}"
    docker("build", "--tag", tag, "-", stdin=f'FROM {busybox()}\nLABEL devcontainer.metadata="{entry}"\n')
    try:
        project = write_project(tmp_path / "project", {"image": tag})
        with pytest.raises(Invalid, match=name):
            await provider.create(request("asking", project))
        assert await provider.inspect("asking") is None
    finally:
        docker("rmi", tag)


async def test_removal_leaves_nothing(provider: DevcontainerProvider, tmp_path: Path, data: Path) -> None:
    await provider.create(request("gone", write_project(tmp_path / "project", {"image": busybox()})))
    await provider.start("gone")
    assert "-gone-" in docker("ps", "--all", "--format", "{{.Names}}")
    assert len(images_of(data)) == 1
    await provider.remove("gone")
    await provider.remove("gone")
    assert "-gone-" not in docker("ps", "--all", "--format", "{{.Names}}")
    assert images_of(data) == []
    assert DataFiles(data.resolve()).sandbox_ids() == ()
    assert await provider.sandboxes() == ()


async def test_creating_twice_is_creating_once(provider: DevcontainerProvider, tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", {"image": busybox()})
    first = await provider.create(request("twice", project))
    await provider.start("twice")
    assert await provider.create(request("twice", project)) == first
    seen = await provider.inspect("twice")
    assert seen is not None
    assert seen.state is SandboxState.RUNNING


async def test_what_no_record_accounts_for_is_swept(
    provider: DevcontainerProvider, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await provider.create(request("kept", write_project(tmp_path / "project", {"image": busybox()})))
    stray = f"cloche-devcontainer:{DataFiles(data.resolve()).home}-stray"
    docker("tag", busybox(), stray)
    DataFiles(data.resolve()).directory("unfinished").mkdir()
    monkeypatch.setattr("infra.sandbox.devcontainer.provider.YOUNG_S", -1.0)
    await provider.sweep()
    assert [image for image in images_of(data) if "stray" in image] == []
    assert len(images_of(data)) == 1
    assert DataFiles(data.resolve()).sandbox_ids() == ("kept",)


async def test_a_specification_without_a_project_is_told_what_to_do(provider: DevcontainerProvider) -> None:
    with pytest.raises(Invalid, match="cloche devcontainer init"):
        await provider.create(request("bare", None))


async def test_the_nodes_own_data_is_no_project(provider: DevcontainerProvider, data: Path) -> None:
    project = write_project(data / "secrets", {"image": "x"})
    with pytest.raises(Invalid, match="data directory"):
        await provider.create(request("own", project))


async def test_without_the_cli_an_error_tells_how_to_get_it(
    provider: DevcontainerProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, str(tmp_path / "nowhere"))
    project = write_project(tmp_path / "project", {"image": busybox()})
    with pytest.raises(SandboxCreationFailed, match="npm install -g @devcontainers/cli"):
        await provider.create(request("without", project))
