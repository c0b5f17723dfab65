"""Whose events somebody may see."""

from collections import OrderedDict

from contracts.access import Scope
from infra.bus.connection import Bus
from infra.states import state_of

REMEMBERED = 10_000


class Sight:
    """Of one principal. A sandbox's project and labels are what it was made with, so what was found once holds."""

    def __init__(self, bus: Bus, scope: Scope) -> None:
        self._bus = bus
        self._scope = scope
        self._known: OrderedDict[str, bool] = OrderedDict()

    @property
    def everything(self) -> bool:
        return self._scope.everything

    @property
    def only(self) -> tuple[str, ...]:
        """The sandboxes that can be seen, where they are all known by name."""
        return self._scope.sandboxes if self._is_by_name else ()

    @property
    def _is_by_name(self) -> bool:
        return bool(self._scope.sandboxes) and not self._scope.labels and not self._scope.projects

    async def sees(self, sandbox: str) -> bool:
        """Waits out lost connections."""
        if self._scope.everything:
            return True
        if self._is_by_name:
            return sandbox in self._scope.sandboxes
        if sandbox not in self._known:
            return await self._looked(sandbox)
        return self._known[sandbox]

    async def _looked(self, sandbox: str) -> bool:
        state = await state_of(self._bus, sandbox)
        if state is None:
            # It may be made yet.
            return False
        self._known[sandbox] = self._scope.covers(state)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return self._scope.covers(state)
