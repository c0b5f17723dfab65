"""An agent that others wrote: Claude's, behind the protocol. Installed once, at one version, with npm."""

import fcntl
import shutil
import subprocess
from pathlib import Path

PACKAGE = "@agentclientprotocol/claude-agent-acp"
VERSION = "0.29.2"
PLACE = Path.home() / ".cache" / "cloche-test" / "acp-agents"
INSIDE = f"/opt/cloche/bin/node_modules/{PACKAGE}/dist/index.js"
COMMAND = ["node", INSIDE]
ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "dummy",
    "CLAUDE_CONFIG_DIR": "/tmp/.claude",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}


def installed() -> Path:
    """A directory that has it in `node_modules`. Raises `CalledProcessError` where npm cannot."""
    place = PLACE / f"{Path(PACKAGE).name}-{VERSION}"
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            _install(place)
            (place / "complete").touch()
    return place


def _install(place: Path) -> None:
    flags = ["--omit=dev", "--omit=optional", "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit"]
    subprocess.run(
        ["npm", "install", "--prefix", str(place), *flags, f"{PACKAGE}@{VERSION}"],
        check=True,
        capture_output=True,
        timeout=240,
    )
