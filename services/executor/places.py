"""Where the workspaces of sandboxes are, and whether they may be touched now."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from contracts.errors import Conflict, SandboxInvalidState, SandboxNotFound, Unavailable
from contracts.spec import Isolation, SandboxSpec
from contracts.state import SandboxState, Status
from infra.files.workspace import Workspace
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.sandbox.base import Provider

HAS_WORKSPACE = frozenset({Status.RUNNING, Status.PAUSED, Status.STOPPED})
REMEMBERED = 1000


class WorkspacePlace(NamedTuple):
    life: tuple[str | None, int]
    """A sandbox that was recovered may have another directory."""
    directory: str
    inside: str
    spec: SandboxSpec

    @property
    def disk_bytes(self) -> int:
        return self.spec.resources.disk_mb << 20

    def open(self, staging: Path) -> Workspace:
        """`staging` is where new directories are made ready. Raises `OSError`."""
        return Workspace.open(self.directory, self.inside, self.spec.permissions, staging=staging)


class Places:
    def __init__(self, *, journal: Journal, lifecycles: Lifecycles, providers: Mapping[Isolation, Provider]) -> None:
        self._journal = journal
        self._lifecycles = lifecycles
        self._providers = providers
        self._known: dict[str, WorkspacePlace] = {}

    async def of(self, sandbox: str) -> WorkspacePlace:
        """Raises `SandboxNotFound`, `SandboxInvalidState` (it has no workspace now), `Conflict` (not yet)."""
        state = await self._state(sandbox)
        known, life = self._known.get(sandbox), (state.instance, state.first_sequence)
        if known is None or known.life != life:
            known = await self._look(state, life)
            self._known[sandbox] = known
            self._known = dict(list(self._known.items())[-REMEMBERED:])
        return known

    async def _look(self, state: SandboxState, life: tuple[str | None, int]) -> WorkspacePlace:
        provider = self._providers.get(state.isolation)
        if provider is None:
            raise Unavailable(f"node {self._journal.node!r} offers no {state.isolation} sandboxes now")
        created = await provider.created(state.sandbox)
        return WorkspacePlace(life, created.host_workspace, created.workspace, state.spec)

    async def _state(self, sandbox: str) -> SandboxState:
        """What is followed live is a moment old, so anything but `running` is looked up in the log itself."""
        state = self._lifecycles.get(sandbox)
        if state is None or state.status != Status.RUNNING:
            state = await self._journal.lifecycle(sandbox)
        if state is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
        if state.node != self._journal.node:
            raise SandboxInvalidState(f"sandbox {sandbox!r} belongs to node {state.node!r}")
        if state.status == Status.CREATING:
            raise Conflict(f"sandbox {sandbox!r} is still being created")
        if state.status not in HAS_WORKSPACE:
            raise SandboxInvalidState(f"sandbox {sandbox!r} is {state.status}", status=state.status)
        return state
