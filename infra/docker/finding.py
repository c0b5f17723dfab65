"""Finding a Docker engine, without loading what speaks to it."""

import os
from collections.abc import Mapping
from pathlib import Path

from contracts.errors import Unavailable

SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
UNIX = "unix://"


def find_engine(env: Mapping[str, str] = os.environ) -> str | None:
    """The address of the engine that the environment names, or of one whose socket is where it usually is."""
    if given := env.get("DOCKER_HOST"):
        return given
    return next((f"{UNIX}{path}" for path in SOCKETS if Path(path).is_socket()), None)


def require_engine(env: Mapping[str, str] = os.environ) -> str:
    """Raises `Unavailable` where there is none to be found."""
    found = find_engine(env)
    if found is None:
        raise Unavailable("there is no Docker engine here: no DOCKER_HOST, and no socket where it usually is")
    return found
