"""Projects, a provider and a look inside, for tests of the devcontainer tier."""

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contracts.spec import CopyDirectory, Devcontainer, Isolation, Network, NetworkMode, SandboxSpec, Workspace
from infra.docker.engine import Engine
from infra.docker.finding import find_engine
from infra.sandbox.base import CreateRequest
from infra.sandbox.devcontainer.cli import SETTING
from infra.sandbox.devcontainer.provider import DevcontainerProvider
from infra.sandbox.devcontainer.record import DataFiles
from infra.sandbox.docker.offering import make_provider as make_docker
from infra.target import DockerTarget
from tests.images import require_docker

VERSION = "0.89.0"
"""As in `.ci/run`."""
CACHED = Path.home() / f".cache/cloche-test/devcontainers-cli/{VERSION}/node_modules/.bin/devcontainer"


def require_cli() -> None:
    """Skips the test where there is neither engine nor CLI; in CI, where both must be, fails it."""
    require_docker()
    if os.environ.get(SETTING):
        return
    if CACHED.exists():
        os.environ[SETTING] = str(CACHED)
    elif shutil.which("devcontainer") is None:
        missing = f"no devcontainer CLI: npm install --prefix {CACHED.parents[2]} @devcontainers/cli@{VERSION}"
        if os.environ.get("CI") == "true" or os.environ.get("CLOCHE_REQUIRE_DOCKER"):
            pytest.fail(missing)
        pytest.skip(missing)


def write_project(directory: Path, config: dict[str, Any] | str, files: dict[str, str] | None = None) -> Path:
    """`files` are relative to the project."""
    text = config if isinstance(config, str) else json.dumps(config)
    for name, content in {".devcontainer/devcontainer.json": text, **(files or {})}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return directory


def request(
    sandbox: str, project: Path | None, features: dict[str, dict[str, str | bool]] | None = None
) -> CreateRequest:
    source = None if project is None else CopyDirectory(path=str(project))
    spec = SandboxSpec(
        isolation=Isolation.DEVCONTAINER,
        network=Network(mode=NetworkMode.NONE),
        workspace=Workspace(source=source),
        devcontainer=Devcontainer(features=features or {}),
    )
    return CreateRequest(sandbox=sandbox, node="n1", spec=spec)


@asynccontextmanager
async def open_provider(data: Path) -> AsyncIterator[DevcontainerProvider]:
    """Everything that it made is removed in the end."""
    files = DataFiles(data.resolve())
    async with DevcontainerProvider(files, make_docker(files.root), Engine(find_engine())) as provider:
        try:
            yield provider
        finally:
            for sandbox in {*await provider.sandboxes(), *files.sandbox_ids()}:
                await provider.remove(sandbox)


async def inside(provider: DevcontainerProvider, sandbox: str, script: str) -> str:
    """What a script prints that runs as commands do."""
    target = await provider.target(sandbox)
    assert isinstance(target, DockerTarget)
    return docker("exec", "--user", target.user, target.container, "/bin/sh", "-c", script)


def docker(*argv: str, stdin: str = "") -> str:
    done = subprocess.run(["docker", *argv], capture_output=True, text=True, timeout=120, input=stdin, check=True)
    return done.stdout


def images_of(data: Path) -> list[str]:
    home = DataFiles(data.resolve()).home
    return docker("images", "--format", "{{.Repository}}:{{.Tag}}", f"cloche-devcontainer:{home}-*").split()


def images_now() -> set[str]:
    return set(docker("images", "--all", "--quiet", "--no-trunc").split())


def is_of_a_feature(image: str) -> bool:
    """False for what somebody else has removed meanwhile."""
    done = subprocess.run(["docker", "history", "--no-trunc", image], capture_output=True, text=True, timeout=60)
    return "feature" in done.stdout
