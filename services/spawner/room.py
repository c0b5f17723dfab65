"""How many sandboxes this node has, and whether it takes another."""

from collections.abc import Callable, Collection

from contracts.spec import Isolation
from contracts.state import Status
from infra.lifecycles import Lifecycles

ALIVE = frozenset({Status.RUNNING, Status.PAUSED})


def room_of(lifecycles: Lifecycles, node: str, tiers: Collection[Isolation], most: int) -> Callable[[], bool]:
    """A question to be asked again and again: whether `most` are alive here."""

    def is_full() -> bool:
        mine = (state for state in lifecycles if state.node == node and state.isolation in tiers)
        return sum(state.status in ALIVE for state in mine) >= most

    return is_full
