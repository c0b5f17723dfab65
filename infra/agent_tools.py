"""Programs of agents that every sandbox is given, read-only, whatever its image has."""

import os
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from infra.configuration import CONFIG_FILE, load

INSIDE = "/opt/cloche/bin"
SDK, BUNDLED = "claude_agent_sdk", "_bundled"


def agent_tools(chosen: str | None = None) -> Path | None:
    """The directory of the host that sandboxes see at `INSIDE`; None = there is none.

    That is the `chosen` one, and unless one is chosen what comes with claude-agent-sdk, where that is installed. The
    empty string chooses none. One that is not there is left out: sandboxes are made without it.
    """
    directory = _bundled() if chosen is None else Path(chosen).absolute() if chosen else None
    return directory if directory is not None and directory.is_dir() else None


def node_tools(data: Path) -> Path | None:
    """As the settings of this process say, or of the node whose data folder that is.

    Raises `Invalid` for settings that cannot be read.
    """
    # A tier may keep its sandboxes one floor down.
    home = next((place for place in (data, data.parent) if (place / CONFIG_FILE).exists()), data)
    return agent_tools(load({"CLOCHE_DATA": str(home), **os.environ}).agent.tools)


def is_taken(*inside: str) -> bool:
    """Whether one of the places inside lies where the tools would be, or above, or beneath: it wins over them."""
    own = PurePosixPath(INSIDE)
    return any(own.is_relative_to(place) or PurePosixPath(place).is_relative_to(own) for place in inside)


def _bundled() -> Path | None:
    # Found, not imported: the services that make sandboxes need nothing of it.
    found = find_spec(SDK)
    return Path(found.origin).parent / BUNDLED if found is not None and found.origin else None
