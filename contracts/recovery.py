"""How often a sandbox was recovered, and whether it may be again. Pure."""

import datetime

from contracts.state import SandboxState, Status

STEADY = datetime.timedelta(minutes=10)
"""What has run for so long has recovered: its attempts are counted anew."""
LONGEST_BACKOFF_MS = 60_000
PATIENCE = datetime.timedelta(minutes=1)
"""An engine that is away or refuses for so long makes an attempt fail."""
ENGINE_PATIENCE = datetime.timedelta(hours=1)
"""Where it is the engine that the sandbox died with, and it is still away."""


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


def may_pass(waited: datetime.timedelta, *, retryable: bool, engine_lost: bool) -> bool:
    """Whether what keeps an attempt from succeeding, for so long by now, is waited for and does not count as a failure.

    An engine that is ending, or has just begun, refuses for good what it would do in a moment: so for a minute nothing
    that it says is taken for its last word. While it is away there is nothing to attempt.
    """
    if waited < PATIENCE:
        return retryable or engine_lost
    return retryable and engine_lost and waited < ENGINE_PATIENCE


def is_recovering(state: SandboxState) -> bool:
    return state.status == Status.CREATING and state.recovery is not None


def is_restoring(state: SandboxState) -> bool:
    """Its workspace is half made: what is missing there was not deleted by anybody."""
    return is_recovering(state) and state.recovery is not None and state.recovery.sequence is not None
