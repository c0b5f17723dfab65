"""The git side of sandboxes: which commit they begin from, what they changed, and how that comes home."""

import asyncio
import logging
import weakref
from collections.abc import Mapping
from pathlib import Path

import msgspec

from contracts import codec, subjects
from contracts.errors import ClocheError, Invalid, SandboxCopyFailed, SandboxInvalidState, SandboxNotFound
from contracts.message import Order
from contracts.payload import Payload, pack, pack_base64
from contracts.queries import Reply
from contracts.spec import GitWorktree, Isolation, SandboxSpec
from contracts.state import SandboxState, Status
from contracts.worktrees import MAX_DIFF_BYTES, REQUESTS, CommitWorktree, DiffWorktree, WorktreeCommit, WorktreeDiff
from infra.bus import desk
from infra.journal import Journal
from infra.sandbox.base import Provider
from infra.worktree.checkout import look
from infra.worktree.naming import branch_of, pinned
from infra.worktree.worktree import Worktree, worktree_of

logger = logging.getLogger(__name__)

HAS_WORKSPACE = frozenset({Status.RUNNING, Status.PAUSED, Status.STOPPED, Status.FAILED})
"""If it was ever made: what died too often keeps it."""
MAX_TEXT_BYTES = 1_000_000
NOTE_CHARACTERS = 1000


class Worktrees:
    def __init__(self, *, journal: Journal, providers: Mapping[Isolation, Provider]) -> None:
        self._journal = journal
        self._providers = providers
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def pin(self, sandbox: str, spec: SandboxSpec) -> SandboxSpec:
        """With a git source's commit and branch spelt out, so that the log says for ever what it began from.

        Raises `Invalid` for a source that no workspace can be made from.
        """
        source = spec.workspace.source
        if not isinstance(source, GitWorktree):
            return spec
        branch = branch_of(spec, sandbox)
        found = await asyncio.to_thread(look, source, branch, spec.resources.disk_mb << 20)
        return pinned(spec, commit=found.commit, branch=branch)

    async def rescue(self, provider: Provider, state: SandboxState) -> str:
        """Before a removal: bring home what the agent has committed. Answers what went wrong, in words, or nothing."""
        source = state.spec.workspace.source
        if not isinstance(source, GitWorktree) or not state.created:
            return ""
        try:
            await provider.stop(state.sandbox, 0)
            worktree = await self._worktree(provider, state)
            async with self._lock(state.sandbox):
                await asyncio.to_thread(worktree.bring)
        except SandboxNotFound:
            # The removal was cut short after this, and is done again.
            return ""
        except (ClocheError, OSError) as error:
            logger.warning("%s: its commits stay behind: %s", state.sandbox, error)
            return f"; its commits could not be brought to {source.repository}: {error}"[:NOTE_CHARACTERS]
        return ""

    async def answer(self, subject: str, raw: bytes) -> bytes:
        """Never raises for a bad request: the failure is the answer."""
        try:
            address = subjects.parse_rpc("git", subject)
            if address.verb not in REQUESTS:
                raise Invalid(f"unknown request {address.verb!r}: one of {', '.join(REQUESTS)}")
            request = codec.decode(raw or b"{}", REQUESTS[address.verb])
            result = await self._obey(address.sandbox, request)
            return codec.encode(Reply(result=msgspec.Raw(codec.encode(result))))
        except ClocheError as error:
            return desk.failed(error)
        except OSError as error:
            return desk.failed(SandboxCopyFailed(str(error)))

    async def _obey(self, sandbox: str, request: Order) -> WorktreeDiff | WorktreeCommit:
        state = await self._present(sandbox)
        worktree = await self._worktree(self._providers[state.isolation], state)
        async with self._lock(sandbox):
            match request:
                case DiffWorktree(stat=stat):
                    return await asyncio.to_thread(_diff, worktree, stat=stat)
                case CommitWorktree(message=message):
                    return await asyncio.to_thread(_commit, worktree, message)
        raise Invalid(f"no answer to {type(request).__name__}")

    async def _present(self, sandbox: str) -> SandboxState:
        state = await self._journal.lifecycle(sandbox)
        if state is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
        if state.node != self._journal.node or state.isolation not in self._providers:
            raise SandboxInvalidState(f"sandbox {sandbox!r} belongs to node {state.node!r}")
        if state.status not in HAS_WORKSPACE or not state.created:
            raise SandboxInvalidState(f"sandbox {sandbox!r} is {state.status}", status=state.status)
        return state

    async def _worktree(self, provider: Provider, state: SandboxState) -> Worktree:
        workspace = Path((await provider.created(state.sandbox)).host_workspace)
        return await asyncio.to_thread(worktree_of, state.spec, state.sandbox, workspace)

    def _lock(self, sandbox: str) -> asyncio.Lock:
        """One git at a time in a workspace."""
        return self._locks.setdefault(sandbox, asyncio.Lock())


def _diff(worktree: Worktree, *, stat: bool) -> WorktreeDiff:
    done = worktree.diff(stat=stat, most_bytes=MAX_DIFF_BYTES)
    shown = done.out[: done.out.rfind(b"\n") + 1] if done.truncated else done.out
    data, encoding = _packed(shown)
    base, branch = worktree.workspace.base, worktree.branch
    return WorktreeDiff(base=base, branch=branch, data=data, encoding=encoding, truncated=done.truncated)


def _packed(shown: bytes) -> Payload:
    """A text of nothing but control characters would be six times as long in JSON."""
    packed = pack(shown)
    return packed if len(codec.encode(packed.data)) <= MAX_TEXT_BYTES else pack_base64(shown)


def _commit(worktree: Worktree, message: str) -> WorktreeCommit:
    made = worktree.commit(message)
    return WorktreeCommit(commit=made, branch=worktree.branch, repository=worktree.repository, brought=worktree.bring())
