"""What an image is built from, put together where the project cannot lead the build to files of the host."""

import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from contracts.errors import Invalid
from contracts.spec import NetworkMode, SandboxSpec
from infra.sandbox.devcontainer import jsonc
from infra.sandbox.devcontainer.project import MAX_BYTES, Project, find_beneath, read_beneath
from infra.sandbox.devcontainer.refusals import REFUSED, check_dockerfile, check_feature_name

MAX_FEATURE_BYTES = 64 << 20
CONFIG = ".devcontainer/devcontainer.json"


def stage(project: Project, workspace: Path, staging: Path, spec: SandboxSpec) -> None:
    """Fills `staging` with a configuration that `devcontainer build` can take as it is.

    Raises `Invalid` where the project's paths lead out of the workspace or its own features ask for what is refused.
    """
    directory = staging / Path(CONFIG).parent
    directory.mkdir(parents=True, exist_ok=True)
    try:
        (directory / "Dockerfile").write_bytes(_dockerfile(project, workspace, spec))
        for name in project.features:
            if name.startswith("./"):
                _stage_feature(workspace, f"{project.directory}/{name}", find_beneath(directory, name))
        built = _configuration(project, workspace, spec)
    except (OSError, ValueError) as error:
        raise Invalid(f"the project's image cannot be built: {error}") from error
    (staging / CONFIG).write_bytes(msgspec.json.encode(built))


def _dockerfile(project: Project, workspace: Path, spec: SandboxSpec) -> bytes:
    if project.build is None:
        return f"FROM {project.image}\n".encode()
    path = f"{project.directory}/{project.build.dockerfile}"
    content = read_beneath(workspace, path, MAX_BYTES)
    if spec.network.mode is not NetworkMode.FULL:
        check_dockerfile(content.decode(errors="replace"), project.build.args, path)
    return content


def _configuration(project: Project, workspace: Path, spec: SandboxSpec) -> dict[str, Any]:
    build: dict[str, Any] = {"dockerfile": "Dockerfile", "context": "."}
    if project.build is not None:
        context = find_beneath(workspace, f"{project.directory}/{project.build.context}")
        build |= {"context": str(context), "args": project.build.args}
        if project.build.target is not None:
            build["target"] = project.build.target
    build["options"] = list(_options(spec))
    return {
        "build": build,
        "features": project.features,
        "overrideFeatureInstallOrder": project.feature_order,
        "remoteUser": "1000",
        "containerUser": "1000",
        "updateRemoteUserUID": False,
    }


def _options(spec: SandboxSpec) -> tuple[str, ...]:
    """What is built is not trusted either. BuildKit takes the limits and does not hold them."""
    memory = spec.resources.memory_mb
    network = () if spec.network.mode is NetworkMode.FULL else ("--network=none",)
    return (
        "--force-rm",
        f"--memory={memory}m",
        f"--memory-swap={memory}m",
        "--cpu-period=100000",
        f"--cpu-quota={round(spec.resources.cpus * 100_000)}",
        *network,
    )


def _stage_feature(workspace: Path, path: str, target: Path) -> None:
    source = find_beneath(workspace, path)
    _check_feature(workspace, path)
    left = MAX_FEATURE_BYTES
    for directory, subdirectories, files in os.walk(source):
        here = Path(directory)
        there = target / here.relative_to(source)
        there.mkdir(parents=True, exist_ok=True)
        for name in (*subdirectories, *files):
            _refuse_special(here / name)
        for name in files:
            content = read_beneath(here, name, left)
            left -= len(content)
            (there / name).write_bytes(content)


def _refuse_special(path: Path) -> None:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError(f"feature file {path.name} is neither a file nor a directory")


def _check_feature(workspace: Path, path: str) -> None:
    described = jsonc.decode(read_beneath(workspace, f"{path}/devcontainer-feature.json", MAX_BYTES).decode())
    check_feature_name(str(described.get("id", "")), path)
    for name in ("privileged", "capAdd", "securityOpt", "mounts"):
        if described.get(name):
            raise Invalid(f"{path}: `{name}` is refused: {REFUSED[name]}")
    if described.get("dependsOn"):
        raise Invalid(f"{path}: `dependsOn` is refused: name what it needs in features")
