"""The tier's entry point: what speaks to an engine is loaded only where there is one."""

from pathlib import Path
from typing import TYPE_CHECKING

from infra.docker.finding import require_engine

if TYPE_CHECKING:
    from infra.sandbox.docker.provider import DockerProvider


def make_provider(data_dir: Path) -> "DockerProvider":
    """Raises `Unavailable` where there is no engine to be found."""
    engine = require_engine()
    from infra.sandbox.docker.provider import DockerProvider

    return DockerProvider(data_dir, engine)
