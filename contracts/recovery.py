"""How often a sandbox was recovered, and whether it may be again. Pure."""

import datetime

from contracts.state import SandboxState, Status

STEADY = datetime.timedelta(minutes=10)
"""What has run for so long has recovered: its attempts are counted anew."""
LONGEST_BACKOFF_MS = 60_000


def attempts_used(state: SandboxState, now: datetime.datetime) -> int:
    """Attempts at recovery that count when its present life ends at `now`."""
    if state.started_at is not None and now - state.started_at >= STEADY:
        return 0
    return state.retries


def backoff_ms(state: SandboxState, used: int) -> int:
    """How long to wait after so many attempts: the first is at once."""
    if used == 0:
        return 0
    doubled: int = state.spec.restart.backoff_ms << min(used - 1, 20)
    return min(doubled, LONGEST_BACKOFF_MS)


def is_recovering(state: SandboxState) -> bool:
    return state.status == Status.CREATING and state.recovery is not None


def is_restoring(state: SandboxState) -> bool:
    """Its workspace is half made: what is missing there was not deleted by anybody."""
    return is_recovering(state) and state.recovery is not None and state.recovery.sequence is not None
