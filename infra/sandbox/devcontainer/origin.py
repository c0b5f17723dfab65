"""The project's files, to be looked at before there is a workspace."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from contracts.errors import Invalid
from contracts.ids import SandboxId
from contracts.spec import CopyDirectory, GitWorktree, SandboxSpec
from infra.sandbox.forking import Fill
from infra.sandbox.trees import remove_tree
from infra.sandbox.workspace_path import check_workspace_path
from infra.worktree.checkout import fill
from infra.worktree.naming import branch_of


def check_spec(spec: SandboxSpec, data: Path, *, restored: bool = False) -> None:
    """Raises `Invalid` for what a devcontainer sandbox cannot have, whatever Docker sandboxes can.

    What is `restored` does not come from its source, which may be gone.
    """
    check_workspace_path(spec.workspace.path)
    if spec.docker.mounts:
        raise Invalid("docker.mounts: a devcontainer sandbox has only its workspace")
    if restored:
        return
    match spec.workspace.source:
        case CopyDirectory(path=given) | GitWorktree(repository=given):
            path = Path(given).resolve()
            if data.is_relative_to(path) or path.is_relative_to(data):
                raise Invalid("workspace.source: the node's own data directory cannot be copied into a sandbox")
            if isinstance(spec.workspace.source, CopyDirectory) and not path.is_dir():
                raise Invalid(f"workspace.source: cannot copy {given}: it is not a directory")


@asynccontextmanager
async def project_files(
    spec: SandboxSpec, sandbox: SandboxId, scratch: Path, restore: Fill | None
) -> AsyncIterator[Path]:
    """The directory that the workspace will be filled from, or a copy of what is not a directory beneath `scratch`.

    Raises `Invalid` for a specification without a source that could have a configuration.
    """
    most = spec.resources.disk_mb << 20
    match spec.workspace.source:
        case _ if restore is not None:
            async with _checkout(scratch) as checkout:
                await asyncio.to_thread(restore, checkout, None, most)
                yield checkout
        case CopyDirectory(path=path):
            yield Path(path)
        case GitWorktree() as source:
            async with _checkout(scratch) as checkout:
                await asyncio.to_thread(fill, source, checkout, None, branch_of(spec, sandbox), most)
                yield checkout
        case _:
            raise Invalid(
                "a devcontainer sandbox needs workspace.source, a directory or a repository with "
                f"{spec.devcontainer.config} in it: `cloche devcontainer init DIR` writes one"
            )


@asynccontextmanager
async def _checkout(scratch: Path) -> AsyncIterator[Path]:
    checkout = scratch / "checkout"
    await asyncio.to_thread(remove_tree, checkout)
    checkout.mkdir(mode=0o700, parents=True)
    try:
        yield checkout
    finally:
        await asyncio.to_thread(remove_tree, checkout)
