"""A project's devcontainer.json, read and judged."""

import os
import re
import stat
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from contracts.errors import Invalid
from contracts.spec import Devcontainer
from infra.sandbox.devcontainer import jsonc
from infra.sandbox.devcontainer.refusals import check_feature_name, check_properties

MAX_BYTES = 256 * 1024
LIFECYCLE = ("onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand")
_IMAGE = re.compile(r"(?!.*(?:\.\.|//))[A-Za-z0-9][A-Za-z0-9._:/@-]{0,499}\Z")
"""It becomes a part of an address that the engine is asked at."""
_REGISTRY_FEATURE = re.compile(r"(ghcr\.io|mcr\.microsoft\.com)/[a-z0-9._/-]+([:@][A-Za-z0-9._:-]+)?\Z")
_HOST_VARIABLE = re.compile(r"\$\{(?:localEnv|env):[^}:]*(?::([^}]*))?\}")
_HOST_FOLDER = re.compile(r"\$\{localWorkspaceFolder\}")

Command = str | list[str] | dict[str, str | list[str]]
Options = dict[str, str | bool] | str | bool


class Build(Struct, frozen=True, kw_only=True):
    dockerfile: str
    context: str = "."
    args: dict[str, str] = {}
    target: str | None = None


class Project(Struct, frozen=True, kw_only=True):
    """What of the project's configuration has an effect in a sandbox."""

    directory: str
    """Where the configuration is, relative to the workspace: what its own paths are relative to."""
    image: str | None = None
    build: Build | None = None
    features: dict[str, Options] = {}
    feature_order: tuple[str, ...] = ()
    container_env: dict[str, str] = {}
    remote_env: dict[str, str] = {}
    lifecycle: dict[str, Command] = {}


class _Taken(Struct, frozen=True, kw_only=True, rename="camel"):
    image: str | None = None
    build: Build | None = None
    docker_file: str | None = None
    context: str = "."
    features: dict[str, Options] = {}
    override_feature_install_order: tuple[str, ...] = ()
    container_env: dict[str, str] = {}
    remote_env: dict[str, str | None] = {}
    on_create_command: Command | None = None
    update_content_command: Command | None = None
    post_create_command: Command | None = None
    post_start_command: Command | None = None


def read_project(workspace: Path, wanted: Devcontainer, inside: str) -> Project:
    """The configuration in a workspace that nothing is changing, with the features that were asked for added.

    Variables of the host are blank in it, and the host's path of the workspace is the one inside.
    Raises `Invalid` where there is none, where it cannot be read, and where it asks for what is refused.
    """
    config = _decode(workspace, wanted.config)
    check_properties(config, wanted.config)
    try:
        taken = msgspec.convert(_without_host(config, inside), _Taken)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Invalid(f"{wanted.config}: {error}") from error
    # The CLI looks for those of the order too.
    for name in (*taken.features, *taken.override_feature_install_order):
        if name not in wanted.features:
            _check_project_feature(name, wanted.config)
    for name in wanted.features:
        check_feature_name(name, "devcontainer.features")
    return _project(taken, wanted)


def _decode(workspace: Path, path: str) -> dict[str, Any]:
    try:
        return jsonc.decode(read_beneath(workspace, path, MAX_BYTES).decode())
    except FileNotFoundError as error:
        raise Invalid(
            f"there is no {path} in the workspace: `cloche devcontainer init DIR` writes one, "
            "or name another in devcontainer.config"
        ) from error
    except (OSError, ValueError) as error:
        raise Invalid(f"{path}: {error}") from error


def read_beneath(root: Path, path: str, most_bytes: int) -> bytes:
    """A regular file beneath `root`, reached through no symbolic link.

    Raises OSError where there is none, ValueError where the way leads out or the file is too large.
    """
    found = find_beneath(root, path)
    fd = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError(f"{path} is not a regular file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"{path} is larger than {most_bytes} bytes")
    return content


def find_beneath(root: Path, path: str) -> Path:
    """The path without `..` and symbolic links. Raises ValueError where it leads out of `root` or through a link."""
    plain = os.path.normpath(path)
    if PurePosixPath(plain).is_absolute() or plain.split("/")[0] == "..":
        raise ValueError(f"{path} leads out of the workspace")
    found = root / plain
    for step in (found, *found.parents):
        if step == root:
            break
        if step.is_symlink():
            raise ValueError(f"{path} leads through a symbolic link")
    return found


def _without_host(value: Any, inside: str) -> Any:
    if isinstance(value, str):
        blanked = _HOST_FOLDER.sub(lambda _: inside, _HOST_VARIABLE.sub(lambda found: found[1] or "", value))
        # What is left of one may make up another.
        return blanked if blanked == value else _without_host(blanked, inside)
    if isinstance(value, list):
        return [_without_host(part, inside) for part in value]
    if isinstance(value, dict):
        return {name: _without_host(part, inside) for name, part in value.items()}
    return value


def _check_project_feature(name: str, path: str) -> None:
    check_feature_name(name, path)
    if not name.startswith("./") and not _REGISTRY_FEATURE.match(name):
        raise Invalid(
            f"{path}: feature `{name}` is neither in the project (./…) nor on ghcr.io or mcr.microsoft.com; "
            "where it is wanted, name it in devcontainer.features of the sandbox"
        )


def _project(taken: _Taken, wanted: Devcontainer) -> Project:
    build = taken.build
    if taken.docker_file is not None:
        build = Build(dockerfile=taken.docker_file, context=taken.context)
    if (taken.image is None) == (build is None):
        raise Invalid(f"{wanted.config}: needs either `image` or `build`")
    if taken.image is not None and not _IMAGE.match(taken.image):
        raise Invalid(f"{wanted.config}: {taken.image[:200]!r} is not the name of an image")
    commands = (
        taken.on_create_command,
        taken.update_content_command,
        taken.post_create_command,
        taken.post_start_command,
    )
    return Project(
        directory=str(PurePosixPath(os.path.normpath(wanted.config)).parent),
        image=taken.image,
        build=build,
        features={**taken.features, **wanted.features},
        feature_order=taken.override_feature_install_order,
        container_env=taken.container_env,
        remote_env={name: value for name, value in taken.remote_env.items() if value is not None},
        lifecycle={name: command for name, command in zip(LIFECYCLE, commands, strict=True) if command},
    )
