"""What the engine still holds of sandboxes whose data was under some directory."""

import json
import subprocess
from pathlib import Path
from typing import Any

LABEL = "label=cloche.home"
ASK_S = 30


def left_under(directory: Path) -> list[str]:
    """Containers and volumes that are ours by label and have a part of `directory` in them.

    The engine may be others' too: what lies elsewhere is not looked at. Nothing where no engine answers.
    """
    containers = [
        f"container {each['Name'].lstrip('/')}" for each in _containers() if _is_in(directory, _sources(each))
    ]
    volumes = [f"volume {each['Name']}" for each in _volumes() if _is_in(directory, [_device(each)])]
    return sorted(containers + volumes)


def _containers() -> list[dict[str, Any]]:
    return _inspected("container", _lines("ps", "--all", "--quiet", "--no-trunc", "--filter", LABEL))


def _volumes() -> list[dict[str, Any]]:
    return _inspected("volume", _lines("volume", "ls", "--quiet", "--filter", LABEL))


def _inspected(kind: str, names: list[str]) -> list[dict[str, Any]]:
    """Each by itself: others come and go meanwhile."""
    return [json.loads(line) for name in names for line in _lines(kind, "inspect", "--format", "{{json .}}", name)]


def _sources(container: dict[str, Any]) -> list[str]:
    return [mount.get("Source", "") for mount in container["Mounts"]]


def _device(volume: dict[str, Any]) -> str:
    return str((volume["Options"] or {}).get("device", ""))


def _is_in(directory: Path, paths: list[str]) -> bool:
    return any(Path(path).is_relative_to(directory.resolve()) for path in paths if path)


def _lines(*argv: str) -> list[str]:
    try:
        done = subprocess.run(["docker", *argv], capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []
