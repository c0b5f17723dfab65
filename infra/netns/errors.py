"""Why nothing listens in a sandbox."""

from contracts.errors import Conflict, SandboxInvalidState, Unavailable


class LifeIsOver(SandboxInvalidState):
    """What was to be entered has ended, or was started anew since."""


class PortTaken(Conflict):
    """Something inside listens there already."""


class NoWayIn(Unavailable):
    """This service has no right to enter, and no other way to go."""
