"""The tier's entry point: what speaks to an engine is loaded only where there is one."""

from pathlib import Path
from typing import TYPE_CHECKING

from infra.docker.finding import find_engine, require_engine
from infra.sandbox.docker.layout import DataFiles

if TYPE_CHECKING:
    from infra.sandbox.docker.provider import DockerProvider


def make_provider(data_dir: Path) -> "DockerProvider":
    """Raises `Unavailable` where there is no engine to be found, and no sandbox that waits for one to come back."""
    waiting = bool(DataFiles(data_dir.resolve()).sandbox_ids())
    engine = find_engine() if waiting else require_engine()
    from infra.sandbox.docker.provider import DockerProvider

    return DockerProvider(data_dir, engine)
