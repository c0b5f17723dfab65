"""Making a sandbox's directory, workspace and record."""

import os
from importlib.metadata import version
from pathlib import Path

import msgspec

from contracts.errors import Invalid, SandboxCreationFailed
from contracts.spec import CopyDirectory, ForkOf, GitWorktree, NetworkMode, SandboxSpec
from infra.durable import sync_directory
from infra.sandbox.base import Created, CreateRequest
from infra.sandbox.copying import copy_directory
from infra.sandbox.environment import SandboxOwn, build_environment
from infra.sandbox.forking import Fill, check_fork
from infra.sandbox.local.layout import DataFiles, SandboxFiles
from infra.sandbox.local.limits import foresee_enforcement
from infra.sandbox.local.record import Record, load_record, store_record
from infra.sandbox.local.rootfs import USER_NAME, interpreter, shell
from infra.sandbox.local.uids import uid_allocation
from infra.sandbox.trees import remove_tree
from infra.sandbox.way_out import way_out
from infra.sandbox.workspace_path import check_workspace_path
from infra.worktree.checkout import fill
from infra.worktree.naming import agent_of, branch_of


def check_spec(spec: SandboxSpec, data: Path) -> None:
    """Raises `Invalid` for what a local sandbox cannot be."""
    if spec.network.mode is NetworkMode.FULL:
        raise Invalid("network.mode: local sandboxes have no network; use mode none or restricted")
    check_workspace_path(spec.workspace.path)
    source = spec.workspace.source
    if source is None or isinstance(source, ForkOf):
        return
    path = Path(source.path if isinstance(source, CopyDirectory) else source.repository).resolve()
    if data.is_relative_to(path) or path.is_relative_to(data):
        raise Invalid("workspace.source: the node's own data directory cannot be copied into a sandbox")


def make_sandbox(request: CreateRequest, data: DataFiles) -> Record:
    """The sandbox, whole on disk. After a crash in the middle, calling it again finishes the work.

    Raises `Invalid` for what a local sandbox cannot be, `SandboxCreationFailed` when the node cannot make it.
    """
    check_spec(request.spec, data.data)
    check_fork(request.spec, request.fill)
    files = data.of(request.sandbox)
    try:
        record = load_record(files.record) or begin_record(request, data, files)
        if record.ready:
            return record
        fill_workspace(request.spec, files, record.host_uid, request.fill)
        record = msgspec.structs.replace(record, ready=True)
        store_record(files.record, record)
    except OSError as error:
        raise SandboxCreationFailed(f"cannot make {request.sandbox}: {error}") from error
    return record


def begin_record(request: CreateRequest, data: DataFiles, files: SandboxFiles) -> Record:
    for directory in (data.sandboxes, files.root, files.control):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with uid_allocation(data) as uid:
        record = describe(request, uid)
        store_record(files.record, record)
    return record


def describe(request: CreateRequest, uid: int | None) -> Record:
    spec = request.spec
    built = build_environment(spec.environment, request.host_env, own_values(spec.workspace.path), way_out(spec))
    return Record(
        sandbox=request.sandbox,
        node=request.node,
        host_uid=uid,
        workspace=spec.workspace.path,
        resources=spec.resources,
        network=spec.network.mode,
        env=built.env,
        env_blocked=built.blocked,
        enforcement=foresee_enforcement(spec),
    )


def fill_workspace(spec: SandboxSpec, files: SandboxFiles, owner: int | None, restore: Fill | None = None) -> None:
    if files.workspace.exists():
        return
    unfinished = files.unfinished_workspace
    remove_tree(unfinished)
    unfinished.mkdir(mode=0o700)
    limit = spec.resources.disk_mb << 20
    match spec.workspace.source:
        case _ if restore is not None:
            restore(unfinished, owner, limit)
        case CopyDirectory(path=path):
            copy_directory(Path(path), unfinished, owner, limit)
        case GitWorktree() as source:
            branch = branch_of(spec, files.root.name)
            fill(source, unfinished, owner, branch, limit, agent=agent_of(spec))
    if owner is not None:
        os.chown(unfinished, owner, owner)
    unfinished.rename(files.workspace)
    sync_directory(files.root)


def own_values(workspace: str) -> SandboxOwn:
    return SandboxOwn(
        path=interpreter().search_path,
        home=workspace,
        shell=shell(),
        user=USER_NAME,
        version=version("cloche"),
        root=workspace,
    )


def as_created(record: Record, files: SandboxFiles) -> Created:
    return Created(
        sandbox=record.sandbox,
        workspace=record.workspace,
        host_workspace=str(files.workspace),
        env_passed=tuple(sorted(record.env)),
        env_blocked=record.env_blocked,
        enforcement=record.enforcement,
    )
