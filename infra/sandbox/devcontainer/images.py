"""Images of devcontainers: what they ask for, making one's own of them, and taking that away."""

import asyncio
import secrets
from typing import Any

import msgspec
from msgspec import Struct

from contracts.errors import Invalid, SandboxCreationFailed
from infra.docker.engine import ASK_S, Engine
from infra.docker.errors import CONFLICT, NOT_FOUND, Refused, asking
from infra.docker.images import Images, Progress

METADATA = "devcontainer.metadata"
"""The label in which the CLI notes what is to be done in containers of an image."""
REPOSITORY = "cloche-devcontainer"
BUILT = ".built"
"""Ends the tag of what the CLI built; what containers are made of has the same tag without it."""
HOME_LABEL, KEY_LABEL = "cloche.home", "cloche.key"
"""As on every container of ours: one that a crash left is swept with the others."""
FEATURES = "dev_container_feature_content_temp"
"""The name under which the CLI hands features to a builder without BuildKit, and which it leaves."""
COMMIT_S = 600.0

Metadata = list[dict[str, Any]]


class _Config(Struct, frozen=True, kw_only=True, rename="pascal"):
    labels: dict[str, str] | None = None


class _Image(Struct, frozen=True, kw_only=True, rename="pascal"):
    id: str
    created: int | str = 0
    """Seconds since 1970 in a list."""
    repo_tags: tuple[str, ...] | None = None
    config: _Config | None = None


async def require_image(engine: Engine, name: str, progress: Progress) -> None:
    """Pulls it where it is absent. Raises `SandboxCreationFailed`, naming it, where that fails."""
    images = Images(engine)
    if await images.inspect(name) is not None:
        return
    try:
        await images.pull(name, progress)
    except Refused as error:
        raise SandboxCreationFailed(f"image {name} is not here and cannot be pulled: {error.message}") from error


async def read_metadata(engine: Engine, name: str) -> Metadata:
    """What the image, and each feature built into it, asks for. Raises `Invalid` where that cannot be read."""
    found = await _inspect(engine, name)
    label = (found.config.labels or {}).get(METADATA) if found and found.config else None
    if label is None:
        return []
    try:
        entries = msgspec.json.decode(label, type=Metadata | dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Invalid(f"image {name}: its label {METADATA} cannot be read: {error}") from error
    return entries if isinstance(entries, list) else [entries]


async def derive_image(engine: Engine, image: str, tag: str, env: dict[str, str], metadata: Metadata, home: str) -> str:
    """The same image under a name of ours, with more variables and its own metadata. Nothing of it runs on the way."""
    labels = {
        METADATA: msgspec.json.encode(metadata).decode(),
        HOME_LABEL: home,
        KEY_LABEL: secrets.token_hex(6),
    }
    variables = [f"{name}={value}" for name, value in env.items()]
    body = {"Image": image, "Cmd": ["true"], "Env": variables, "Labels": labels, "NetworkDisabled": True}
    deriving = asyncio.ensure_future(_commit(engine, body, tag))
    try:
        await asyncio.shield(deriving)
    finally:
        # The engine goes on with what it was asked for: only at its end is it known what there is to remove.
        await asyncio.wait([deriving])
    return f"{REPOSITORY}:{tag}"


async def _commit(engine: Engine, body: dict[str, Any], tag: str) -> None:
    async with asking(f"make an image of {body['Image']}", COMMIT_S):
        container = await (await engine.client()).containers.create(body)
        try:
            await container.commit(repository=REPOSITORY, tag=tag)
        finally:
            await container.delete(force=True, v=True)


async def remove_images(engine: Engine, tags: tuple[str, ...], untagged: tuple[str, ...] = ()) -> None:
    """What was built, and what its builder left. What something else is made from stays."""
    for tag in tags:
        await _remove(engine, tag)
    for image in reversed(untagged):
        found = await _inspect(engine, image)
        if found is not None and not found.repo_tags:
            await _remove(engine, image)


async def release_features(engine: Engine, ours: tuple[str, ...]) -> None:
    """Takes the features' name away, where the image that has it is one of ours."""
    found = await _inspect(engine, FEATURES)
    if found is not None and found.id.removeprefix("sha256:").startswith(ours):
        await _remove(engine, FEATURES)


async def list_tags(engine: Engine, prefix: str, made_before: float) -> tuple[str, ...]:
    """Our tags that begin so, without the repository, of images made before that time."""
    wanted = msgspec.json.encode({"reference": [f"{REPOSITORY}:{prefix}*"]}).decode()
    async with asking("list images", ASK_S):
        found = await engine.get("images/json", tuple[_Image, ...], filters=wanted)
    old = (image for image in found if isinstance(image.created, int) and image.created < made_before)
    tags = (tag.removeprefix(f"{REPOSITORY}:") for image in old for tag in image.repo_tags or ())
    return tuple(tag for tag in tags if tag.startswith(prefix))


async def _inspect(engine: Engine, name: str) -> _Image | None:
    try:
        async with asking(f"inspect image {name}", ASK_S):
            return await engine.get(f"images/{name}/json", _Image)
    except Refused as error:
        if error.status == NOT_FOUND:
            return None
        raise


async def _remove(engine: Engine, name: str) -> None:
    try:
        async with asking(f"remove image {name}", ASK_S):
            await (await engine.client()).images.delete(name)
    except Refused as error:
        # Gone already, or another image stands on it and takes it along when it goes.
        if error.status not in (NOT_FOUND, CONFLICT):
            raise
