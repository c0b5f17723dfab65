"""What a sandbox's branch and its committer are called."""

import re

import msgspec

from contracts.spec import GitWorktree, SandboxSpec

_COMMIT = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\Z")


def agent_of(spec: SandboxSpec) -> str:
    return spec.agent_id or "agent"


def branch_of(spec: SandboxSpec, sandbox: str) -> str:
    """The branch that was asked for, or `agent/<agent>/<task>`, with the sandbox's id where there is no task."""
    source = spec.workspace.source
    named = source.branch if isinstance(source, GitWorktree) else None
    return named or f"agent/{agent_of(spec)}/{spec.task_id or sandbox}"


def is_commit(text: str) -> bool:
    """Whether it is a whole commit id, which always means the same."""
    return _COMMIT.match(text) is not None


def object_format(commit: str) -> str:
    return "sha1" if len(commit) == 40 else "sha256"


def pinned(spec: SandboxSpec, *, commit: str, branch: str) -> SandboxSpec:
    """The same specification, meaning the same commit and branch for ever."""
    source = spec.workspace.source
    assert isinstance(source, GitWorktree)
    fixed = msgspec.structs.replace(source, ref=commit, branch=branch)
    workspace = msgspec.structs.replace(spec.workspace, source=fixed)
    return msgspec.structs.replace(spec, workspace=workspace)
