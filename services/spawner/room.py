"""What this node has promised to its sandboxes, and whether it takes another."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from contracts.spec import Isolation, Resources
from contracts.state import SandboxState, Status
from infra.lifecycles import Lifecycles

LIVING = frozenset({Status.CREATING, Status.RUNNING, Status.PAUSED})


class Promised(NamedTuple):
    sandboxes: int
    memory_mb: int
    cpus: float


def owners_in(lifecycles: Lifecycles) -> set[str]:
    """Whoever has anything that lives: the silence of others is nobody's loss."""
    return {state.node for state in lifecycles if state.status in LIVING}


class Room:
    def __init__(self, lifecycles: Lifecycles, node: str, tiers: Collection[Isolation]) -> None:
        self._lifecycles = lifecycles
        self._node = node
        self._tiers = tiers
        self._taking: dict[str, Resources] = {}

    def promised(self, *, but: str = "") -> Promised:
        """To all that live here or are being made, without the one that is asked for."""
        taken = {state.sandbox: state.spec.resources for state in self.mine()} | self._taking
        taken.pop(but, None)
        resources = taken.values()
        return Promised(len(taken), sum(each.memory_mb for each in resources), sum(each.cpus for each in resources))

    def mine(self) -> list[SandboxState]:
        """What lives here or is being made."""
        return [
            state
            for state in self._lifecycles
            if state.node == self._node and state.isolation in self._tiers and state.status in LIVING
        ]

    def taken(self) -> set[str]:
        """What lives here or is being made, also before the log has it."""
        return {state.sandbox for state in self.mine()} | set(self._taking)

    @contextmanager
    def keep_for(self, sandbox: str, resources: Resources) -> Iterator[None]:
        """It is being taken: nobody else is promised the same place, before the log has it."""
        self._taking[sandbox] = resources
        try:
            yield
        finally:
            self._taking.pop(sandbox, None)
