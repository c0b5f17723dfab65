"""What every route works with: the bus, the settings, and the sandboxes that somebody may see."""

from collections.abc import Callable

from contracts.access import Principal, Role
from contracts.errors import Forbidden, SandboxNotFound
from contracts.ids import is_token
from contracts.state import SandboxState
from infra.bus.connection import Bus
from infra.client import Cloche
from infra.client.sandbox import Sandbox
from infra.settings import Settings
from services.gateway.access.places import Places
from services.gateway.patience import patience
from services.gateway.remembered import Remembered

DESK = "desk"
"""What the application's state calls it."""
MOST_EXPORTS = 16
MOST_EXPORTS_OF_ONE = 4
"""Each reads as much of the log as there is, as fast as it can."""


class Desk:
    """Where the log is divided, that of each partition is beside that of all."""

    def __init__(self, cloche: Cloche, settings: Settings, whole: "Desk | None" = None) -> None:
        self.cloche = cloche
        self.settings = settings
        self.exports: Places = whole.exports if whole else Places("exports", MOST_EXPORTS, MOST_EXPORTS_OF_ONE)
        self.remembered: Remembered = whole.remembered if whole else Remembered(cloche)
        several = cloche.parts if whole is None and cloche.is_divided else {}
        self._parts = {number: Desk(part, settings, self) for number, part in several.items()}

    @property
    def bus(self) -> Bus:
        """Raises `Invalid` where there are several: then it is `of` a sandbox that somebody has one."""
        return self.cloche.bus

    def of(self, sandbox: str) -> "Desk":
        """The one where that sandbox is, or would be."""
        return self._parts[self.cloche.number_of(sandbox)] if self._parts else self

    def beside(self, origin: str | None) -> Callable[[str], bool]:
        """Whether an id is one for a sandbox that begins as `origin`."""
        if origin is None or not is_token(origin):
            return self.cloche.holds
        wanted = self.cloche.number_of(origin)
        return lambda sandbox: self.cloche.holds(sandbox) and self.cloche.number_of(sandbox) == wanted

    async def sandbox(self, principal: Principal, sandbox: str, needed: Role = Role.VIEWER) -> Sandbox:
        """Raises `SandboxNotFound`, also for one that is out of the principal's scope, `Forbidden`, `Unavailable`."""
        async with patience():
            found = await self.remembered.sandbox(sandbox)
        require_sight(principal, found.state)
        require(principal, needed)
        return found


def require(principal: Principal, needed: Role) -> None:
    """Raises `Forbidden`."""
    if not principal.role.covers(needed):
        raise Forbidden(
            f"this takes a token of role {needed}, and that of {principal.subject} is of role {principal.role}"
        )


def require_sight(principal: Principal, state: SandboxState) -> None:
    """Raises `SandboxNotFound`: whoever may not see a sandbox need not know that it is there."""
    if not principal.scope.covers(state):
        raise SandboxNotFound(f"there is no sandbox {state.sandbox!r}")
