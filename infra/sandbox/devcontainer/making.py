"""From a project to the image that its container is made of."""

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from contracts.spec import SandboxSpec, blocked_names
from infra.docker.engine import Engine
from infra.docker.images import Images
from infra.sandbox.devcontainer import images
from infra.sandbox.devcontainer.cli import Said, environment, find_cli, run_cli
from infra.sandbox.devcontainer.images import BUILT, REPOSITORY, Metadata
from infra.sandbox.devcontainer.lifecycle import with_environment
from infra.sandbox.devcontainer.locking import builds, locked
from infra.sandbox.devcontainer.project import LIFECYCLE, Project
from infra.sandbox.devcontainer.refusals import check_metadata
from infra.sandbox.devcontainer.staging import CONFIG, stage
from infra.sandbox.progress import tell

BUILD_TIMEOUT_S = 1800.0
_KEPT = ("id", *LIFECYCLE)
_CONTAINER_VARIABLE = re.compile(r"\$\{containerEnv:([^}:]*)(?::([^}]*))?\}")


class MadeImage(Struct, frozen=True, kw_only=True):
    name: str
    tags: tuple[str, ...] = ()
    """Ours to remove."""
    untagged: tuple[str, ...] = ()
    lifecycle: tuple[str, ...] = ()
    """Which lifecycle commands the project, its image and its features have."""


async def make_image(
    engine: Engine, project: Project, files: Path, spec: SandboxSpec, tag: str, scratch: Path, home: str
) -> MadeImage:
    """Also when it was made before: what is the same comes from the engine's cache.

    Raises `Invalid` for what is refused, `SandboxCreationFailed` with the builder's words, `Unavailable` without CLI.
    """
    base = MadeImage(name=project.image or "")
    if project.build is not None or project.features:
        base = await _build(engine, project, files, spec, tag, scratch)
    else:
        await images.require_image(engine, base.name, lambda line: tell(f"pulling {base.name}: {line}"))
    try:
        metadata = await images.read_metadata(engine, base.name)
        check_metadata(metadata, base.name)
        metadata = _commands_only([*metadata, project.lifecycle])
        found = await Images(engine).inspect(base.name)
        variables = _variables(project, {} if found is None else found.env, spec)
        name = await images.derive_image(engine, base.name, tag, variables, metadata, home)
    except BaseException:
        unfinished = (f"{REPOSITORY}:{tag}", *base.tags)
        await asyncio.shield(images.remove_images(engine, unfinished, base.untagged))
        raise
    present = tuple(command for command in LIFECYCLE if any(command in entry for entry in metadata))
    return MadeImage(name=name, tags=(name, *base.tags), untagged=base.untagged, lifecycle=present)


def _commands_only(metadata: Metadata) -> Metadata:
    """Nothing but lifecycle commands: users, mounts and the like are the sandbox's to say."""
    kept: list[dict[str, Any]] = [
        {name: entry[name] if name == "id" else with_environment(entry[name]) for name in _KEPT if entry.get(name)}
        for entry in metadata
    ]
    return [entry for entry in kept if entry.keys() - {"id"}]


def _variables(project: Project, image: Mapping[str, str], spec: SandboxSpec) -> dict[str, str]:
    """Those of the container, and those of its commands laid over them."""
    known = {**image, **project.container_env}
    remote = {
        name: _CONTAINER_VARIABLE.sub(lambda found: known.get(found[1], found[2] or ""), value)
        for name, value in project.remote_env.items()
    }
    blocked = blocked_names(spec.environment)
    return {name: value for name, value in {**project.container_env, **remote}.items() if name not in blocked}


async def _build(
    engine: Engine, project: Project, files: Path, spec: SandboxSpec, tag: str, scratch: Path
) -> MadeImage:
    cli = find_cli()
    staging, temporary = scratch / "staging", scratch / "temporary"
    await asyncio.to_thread(_empty, staging, temporary)
    name = f"{REPOSITORY}:{tag}{BUILT}"
    said = Said()
    try:
        await asyncio.to_thread(stage, project, files, staging, spec)
        argv = (
            *(cli, "build", "--workspace-folder", str(staging), "--config", str(staging / CONFIG)),
            *("--image-name", name, "--log-format", "json", "--user-data-folder", str(temporary)),
        )
        async with locked(builds(), BUILD_TIMEOUT_S) as held:
            try:
                await run_cli(argv, environment(engine.address, temporary), held, BUILD_TIMEOUT_S, said)
            finally:
                await asyncio.shield(images.release_features(engine, said.images()))
    except BaseException:
        await asyncio.shield(images.remove_images(engine, (name,), said.images()))
        raise
    finally:
        await asyncio.to_thread(_discard, staging, temporary)
    return MadeImage(name=name, tags=(name,), untagged=said.images())


def _empty(*directories: Path) -> None:
    _discard(*directories)
    for directory in directories:
        directory.mkdir(parents=True, mode=0o700)


def _discard(*directories: Path) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
