"""A whole node whose sandboxes are containers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from infra.client import Cloche
from infra.docker.finding import find_engine
from infra.sandbox.docker.provider import DockerProvider
from infra.target import DockerTarget
from tests.images import busybox, require_docker
from tests.services.node import Node, node_in


@asynccontextmanager
async def docker_node(data: Path) -> AsyncIterator[tuple[Node, Cloche]]:
    """Skips the test, or in CI fails it, where no engine answers."""
    require_docker()
    async with node_in(data, CLOCHE_ISOLATION="docker") as (node, cloche):
        yield node, cloche


def spec(image: str | None = None, **resources: Any) -> dict[str, Any]:
    """A small container, unless told otherwise of busybox."""
    small = {"memory_mb": 512, "disk_mb": 1024, "cpus": 2.0}
    return {"docker": {"image": image or busybox()}, "resources": {**small, **resources}}


async def target_of(data: Path, sandbox: str) -> DockerTarget:
    async with DockerProvider(data, find_engine()) as provider:
        return await provider.target(sandbox)
