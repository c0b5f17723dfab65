"""The workspace's directory: made before the container, filled when the sandbox is known."""

import os
from contextlib import suppress
from pathlib import Path

from contracts.spec import CopyDirectory, GitWorktree, SandboxSpec
from infra.sandbox.copying import copy_directory
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.planning import ROOT_UID, SANDBOX_ID
from infra.sandbox.forking import Fill
from infra.sandbox.trees import remove_tree
from infra.worktree.checkout import fill
from infra.worktree.naming import agent_of, branch_of


def make_workspace(data: DataFiles, key: str) -> Path:
    """Empty, owned by the sandbox's user, beneath directories that only the service can enter."""
    for directory in (data.root, data.container(key), data.workspace(key)):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = owner_uid()
    if owner is not None:
        os.chown(data.workspace(key), owner, owner)
    return data.workspace(key)


def discard_workspace(data: DataFiles, key: str) -> None:
    """With all that belongs to the container. It goes at once: whoever follows its files takes this for no deletion.

    May be stopped at any point and begun again. Raises `OSError`.
    """
    remove_tree(data.discarded(key))
    with suppress(FileNotFoundError):
        data.workspace(key).rename(data.discarded(key))
    remove_tree(data.container(key))


def owner_uid() -> int | None:
    """None where the service is not root: then the files are its own."""
    return SANDBOX_ID if os.geteuid() == ROOT_UID else None


def fill_workspace(spec: SandboxSpec, sandbox: str, workspace: Path, restore: Fill | None = None) -> None:
    """In place, for a container has it mounted already; what an interrupted filling left is removed first.

    Raises `Invalid`, `SandboxCreationFailed`, `OSError`.
    """
    _empty(workspace)
    most = spec.resources.disk_mb << 20
    match spec.workspace.source:
        case _ if restore is not None:
            restore(workspace, owner_uid(), most)
        case CopyDirectory(path=path):
            copy_directory(Path(path), workspace, owner_uid(), most)
        case GitWorktree() as source:
            fill(source, workspace, owner_uid(), branch_of(spec, sandbox), most, agent=agent_of(spec))


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(entry)
        else:
            entry.unlink()
