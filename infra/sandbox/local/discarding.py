"""Deleting what a removed sandbox leaves."""

import secrets

from contracts.errors import SandboxRemovalFailed
from infra.sandbox.local.layout import DataFiles, SandboxFiles
from infra.sandbox.trees import remove_tree


def discard(data: DataFiles, files: SandboxFiles) -> None:
    """The sandbox is unknown at once; its files follow. Raises `SandboxRemovalFailed` for what stays behind."""
    try:
        data.trash.mkdir(mode=0o700, parents=True, exist_ok=True)
        moved = data.trash / f"{files.root.name}.{secrets.token_hex(8)}"
        files.root.rename(moved)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SandboxRemovalFailed(f"cannot remove {files.root.name}: {error}") from error
    try:
        remove_tree(moved)
    except OSError as error:
        raise SandboxRemovalFailed(f"some files of {files.root.name} stay in {moved}: {error}") from error


def empty_trash(data: DataFiles) -> None:
    """Finish removals that a crash cut short. What cannot be deleted was reported then and stays."""
    if not data.trash.is_dir():
        return
    for left in data.trash.iterdir():
        try:
            remove_tree(left)
        except OSError:
            continue
