"""The sandboxes of this node that should be alive, each with what is remembered of its present life."""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from msgspec import Struct

from contracts.spec import Isolation
from contracts.state import SandboxState
from infra import clock
from infra.lifecycles import Lifecycles
from services.health_monitor.decide import ALIVE


class Sample(NamedTuple):
    at: float
    cpu_seconds: float


class Life(Struct, kw_only=True):
    """All but `state` and `since` is lost with the monitor, and found again by looking."""

    state: SandboxState
    since: int
    """The sequence of the event that began it."""
    ill_looks: int = 0
    began: float
    """All moments are of the steady clock."""
    odd_since: float | None = None
    sample: Sample | None = None
    compared: bool = False
    """Whether two looks at its processes could be compared."""
    busy_at: float | None = None
    """When its processes were last seen at work."""


class Lives:
    """Follows the log through `Lifecycles`. Tells of nothing before `tell`, and then of all that there are."""

    def __init__(self, lifecycles: Lifecycles, node: str, tiers: Collection[Isolation]) -> None:
        self._node = node
        self._tiers = tiers
        self._lives: dict[str, Life] = {}
        self._unwatched: dict[str, Isolation] = {}
        self._begun: Callable[[SandboxState], None] | None = None
        self._ended: Callable[[str], None] | None = None
        lifecycles.on_change(self._changed)

    def tell(self, begun: Callable[[SandboxState], None], ended: Callable[[str], None]) -> None:
        self._begun, self._ended = begun, ended
        for life in self:
            begun(life.state)

    @property
    def unwatched(self) -> frozenset[Isolation]:
        """Kinds of sandboxes that are alive on this node and that nobody here can look at."""
        return frozenset(self._unwatched.values())

    def get(self, sandbox: str) -> Life | None:
        return self._lives.get(sandbox)

    def state(self, sandbox: str) -> SandboxState | None:
        life = self._lives.get(sandbox)
        return None if life is None else life.state

    def __iter__(self) -> Iterator[Life]:
        return iter(list(self._lives.values()))

    def _changed(self, state: SandboxState) -> None:
        mine = state.node == self._node and state.status in ALIVE
        self._unwatched.pop(state.sandbox, None)
        if mine and state.isolation not in self._tiers:
            self._unwatched[state.sandbox] = state.isolation
        if not mine or state.isolation not in self._tiers:
            if self._lives.pop(state.sandbox, None) is not None and self._ended is not None:
                self._ended(state.sandbox)
            return
        known = self._lives.get(state.sandbox)
        if known is not None and known.state.instance == state.instance:
            known.state = state
            return
        began = clock.steady_at(state.started_at or state.created_at)
        self._lives[state.sandbox] = Life(state=state, since=state.applied_sequence, began=began)
        if self._begun is not None:
            self._begun(state)
