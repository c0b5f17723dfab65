"""A sandbox's files as the log has them: looking at them leaves no trace, and works when the sandbox is gone."""

from contextlib import suppress
from typing import Any
from urllib.parse import unquote_to_bytes

from litestar.types import Scope

from contracts import subjects
from contracts.errors import SandboxInvalidState, SandboxNotFound, Unavailable
from contracts.history import ListFilesAt, ReadFileAt
from contracts.http.moments import read_moment
from contracts.state import Status
from contracts.watch import Flush, Flushed
from infra.client.asking import ask
from infra.client.imported import ImportedSandbox
from infra.client.sandbox import Sandbox
from infra.moments import sequence_at
from services.gateway.desk import Desk

FLUSH_S = 10.0
FILES_S = 60.0
"""The first page of a large tree takes as long as reading its manifest."""
FIRST_NAME = len(("api", "v1", "sandboxes", "<sandbox>", "files"))
"""Of a path in an address."""
HAS_WORKSPACE = frozenset({Status.RUNNING, Status.PAUSED, Status.STOPPED})


def has_workspace(sandbox: Sandbox) -> bool:
    return sandbox.state.status in HAS_WORKSPACE and not isinstance(sandbox, ImportedSandbox)


async def flushed(desk: Desk, sandbox: Sandbox) -> int | None:
    """When all that is in its workspace now is in the log: the sequence. None where nobody can say so in time."""
    if not has_workspace(sandbox):
        return None
    subject = subjects.rpc("watch", sandbox.state.node, sandbox.id, "flush")
    with suppress(Unavailable, SandboxInvalidState, SandboxNotFound):
        answer: Flushed = await ask(desk.bus, subject, Flush(), Flushed, timeout=FLUSH_S, patience=0)
        return answer.sequence
    return None


async def sequence_of(desk: Desk, sandbox: Sandbox, at: str | None) -> int | None:
    """The sequence to ask for; None = now, once what is on the disk is on record. Raises `Invalid`, `Unavailable`."""
    if at is not None:
        return await sequence_at(desk.bus, sandbox.id, read_moment(at))
    await flushed(desk, sandbox)
    return None


async def ask_files(desk: Desk, query: ListFilesAt | ReadFileAt, kind: type[Any]) -> Any:
    """Raises `SandboxFileNotFound`, `Invalid`, `Unavailable`."""
    verb = "files" if isinstance(query, ListFilesAt) else "file"
    return await ask(desk.bus, subjects.state_rpc(verb), query, kind, timeout=FILES_S)


def path_in(scope: Scope) -> bytes:
    """The file that an address names: any bytes, spelled with percent signs."""
    names = [name for name in unquote_to_bytes(scope["raw_path"]).split(b"/") if name]
    return b"/".join(names[FIRST_NAME:])
