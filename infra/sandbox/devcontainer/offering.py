"""The tier's entry point: what speaks to an engine is loaded only where there is one."""

from pathlib import Path
from typing import TYPE_CHECKING

from contracts.spec import Isolation
from infra.docker.finding import find_engine
from infra.sandbox.providers import load_provider

if TYPE_CHECKING:
    from infra.sandbox.devcontainer.provider import DevcontainerProvider


def make_provider(data_dir: Path) -> "DevcontainerProvider":
    """Raises `Unavailable` where the Docker tier does."""
    docker = load_provider(Isolation.DOCKER, data_dir.resolve() / "devcontainers")
    from infra.docker.engine import Engine
    from infra.sandbox.devcontainer.provider import DevcontainerProvider
    from infra.sandbox.devcontainer.record import DataFiles

    return DevcontainerProvider(DataFiles(data_dir.resolve()), docker, Engine(find_engine()))
