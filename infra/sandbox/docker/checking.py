"""Whether a specification can be honoured, before anything is made for it."""

import re
from pathlib import Path

from contracts.errors import Invalid
from contracts.spec import CopyDirectory, GitWorktree, SandboxSpec
from infra.sandbox.workspace_path import check_workspace_path
from infra.worktree.checkout import look
from infra.worktree.naming import branch_of

_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._/:@-]*\Z")
_RUNTIME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._/-]*\Z")


def check_spec(spec: SandboxSpec) -> None:
    """Raises `Invalid` for what a Docker sandbox cannot be; `check_mounts` and `check_source` look at the rest."""
    check_workspace_path(spec.workspace.path)
    # It becomes a part of an address that the engine is asked at.
    if not _IMAGE.match(spec.docker.image) or ".." in spec.docker.image or "//" in spec.docker.image:
        raise Invalid(f"docker.image: {spec.docker.image!r} is not the name of an image")
    if spec.docker.runtime is not None and not _RUNTIME.match(spec.docker.runtime):
        raise Invalid(f"docker.runtime: {spec.docker.runtime!r} is not the name of a runtime")


def check_source(spec: SandboxSpec, sandbox: str, data: Path) -> None:
    """Raises `Invalid` for a workspace that cannot be filled so."""
    match spec.workspace.source:
        case CopyDirectory(path=given):
            path = Path(given).resolve()
            if data.is_relative_to(path) or path.is_relative_to(data):
                raise Invalid("workspace.source: the node's own data directory cannot be copied into a sandbox")
            if not path.is_dir():
                raise Invalid(f"workspace.source: cannot copy {given}: it is not a directory")
        case GitWorktree() as source:
            if Path(source.repository).resolve().is_relative_to(data):
                raise Invalid("workspace.source: the node's own data directory cannot be copied into a sandbox")
            look(source, branch_of(spec, sandbox), spec.resources.disk_mb << 20)
