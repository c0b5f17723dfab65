"""The devcontainer.json that people start from."""

import os
from pathlib import Path

CONFIG = ".devcontainer/devcontainer.json"

TEMPLATE = """\
// A development container for a sealed sandbox. All that is known about the format: https://containers.dev
{
  "name": "sandbox",

  // Needs /bin/sh. The root is read-only: write to the workspace and to /tmp. Everything runs as 1000:1000.
  "image": "node:22-slim",

  // Or build one: "build": { "dockerfile": "Dockerfile" }. It is built without network unless the sandbox has it.
  // "features": { "ghcr.io/devcontainers/features/python:1": {} },

  "containerEnv": {},

  // Once, when the sandbox is made, in the workspace. A failure fails the sandbox, with what it printed.
  // "postCreateCommand": "npm ci",

  // At each start.
  // "postStartCommand": "",

  // Refused, because it would open the sandbox: initializeCommand, mounts, workspaceMount, runArgs, privileged,
  // capAdd, securityOpt, appPort, build.options, dockerComposeFile, and features that reach a Docker engine.
}
"""


def write_template(directory: Path) -> Path:
    """Raises FileExistsError rather than change what is there, OSError where it cannot be written."""
    path = directory / CONFIG
    if not directory.is_dir():
        raise NotADirectoryError(20, "no such directory", str(directory))
    path.parent.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w") as file:
        file.write(TEMPLATE)
    return path
