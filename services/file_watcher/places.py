"""Where workspaces are. That is written on the disk: whoever follows files needs no engine, and speaks to none."""

from pathlib import Path

from contracts.spec import Isolation
from contracts.state import SandboxState
from infra.sandbox.base import Provider
from infra.sandbox.providers import known_providers, load_provider


class Places:
    def __init__(self, data: Path) -> None:
        self._data = data
        self._known = frozenset(known_providers())
        self._providers: dict[Isolation, Provider] = {}

    def has(self, state: SandboxState) -> bool:
        """Whether sandboxes of its tier can be on this node at all."""
        return state.isolation in self._known

    async def of(self, state: SandboxState) -> Path:
        """Raises `SandboxNotFound` for one that is not here, `Unavailable` where no sandbox of its tier is."""
        return Path((await self._provider(state.isolation).created(state.sandbox)).host_workspace)

    def _provider(self, tier: Isolation) -> Provider:
        """Never entered: entering is what looks for an engine."""
        if tier not in self._providers:
            self._providers[tier] = load_provider(tier, self._data)
        return self._providers[tier]
