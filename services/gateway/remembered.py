"""Sandboxes that were looked at lately: what their lives were is read again only when something was added."""

from collections import OrderedDict

from contracts import subjects
from contracts.state import SandboxState
from infra.bus import reader
from infra.client import Cloche
from infra.client.sandbox import Sandbox

MOST = 1000


class Remembered:
    def __init__(self, cloche: Cloche) -> None:
        self._cloche = cloche
        self._states: OrderedDict[str, SandboxState] = OrderedDict()

    async def sandbox(self, name: str) -> Sandbox:
        """As the log has it now. Raises what `Cloche.sandbox` raises."""
        known = self._states.get(name)
        if known is not None and await self._is_current(known):
            self._states.move_to_end(name)
            return Sandbox(self._cloche.bus_of(name), known)
        found = await self._cloche.sandbox(name)
        # An imported one has no life here that could tell whether it is still the same.
        if type(found) is Sandbox:
            self._remember(found.state)
        return found

    async def _is_current(self, known: SandboxState) -> bool:
        newest = await reader.last(self._cloche.bus_of(known.sandbox), subjects.lifecycle(known.sandbox))
        return newest is not None and newest.seq == known.lifecycle_sequence

    def _remember(self, state: SandboxState) -> None:
        self._states[state.sandbox] = state
        self._states.move_to_end(state.sandbox)
        while len(self._states) > MOST:
            self._states.popitem(last=False)
