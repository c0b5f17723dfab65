"""The tier's entry point: what speaks to an engine is loaded only where there is one."""

from pathlib import Path
from typing import TYPE_CHECKING

from contracts.spec import Isolation
from infra.docker.finding import require_engine
from infra.sandbox.providers import load_provider

if TYPE_CHECKING:
    from infra.sandbox.devcontainer.provider import DevcontainerProvider


def make_provider(data_dir: Path) -> "DevcontainerProvider":
    """Raises `Unavailable` where there is no engine to be found."""
    address = require_engine()
    from infra.docker.engine import Engine
    from infra.sandbox.devcontainer.provider import DevcontainerProvider
    from infra.sandbox.devcontainer.record import DataFiles

    data = DataFiles(data_dir.resolve())
    return DevcontainerProvider(data, load_provider(Isolation.DOCKER, data.root), Engine(address))
