"""What follows from what was seen. Pure: time comes in as an argument."""

import datetime
from enum import StrEnum
from typing import NamedTuple

from contracts.errors import ClocheError, Failure, SandboxResourceLimitExceeded, SandboxTimeout
from contracts.events.health import DeathAction, DeathCause, HealthDied, HealthLimitExceeded
from contracts.recovery import attempts_used, backoff_ms
from contracts.spec import Restart, RestartPolicy
from contracts.state import SandboxState, Status

ALIVE = frozenset({Status.RUNNING, Status.PAUSED})
ODD_S = 30.0
"""What the node and the log do not agree on is about to be told by whoever did it; after so long, it is not."""
ORDERED_S = 660.0
"""The same for what this node knows to be an order's work: the last files of a removal may take ten minutes to tell."""
GRACE_MS = 10_000
MB = 1024 * 1024
DETAIL = 2000


class Ending(NamedTuple):
    """How it ended, as the provider tells it."""

    cause: DeathCause
    detail: str = ""
    exit_code: int | None = None
    signal: int | None = None
    looked_at: tuple[str, ...] = ()


class Seen(NamedTuple):
    """What is on the node."""

    state: str
    instance: str | None = None
    detail: str = ""
    ending: Ending | None = None
    pid: int | None = None


class Verdict(StrEnum):
    WELL = "well"
    ILL = "ill"
    DEAD = "dead"
    ODD = "odd"
    """The log and the node say different things, as they do for a moment around every order."""


class Judgement(NamedTuple):
    verdict: Verdict
    reason: str
    ending: Ending | None = None


def judge(state: SandboxState, seen: Seen | None, odd_for_s: float) -> Judgement:
    """What it means that a sandbox which should be alive was seen so; `odd_for_s`: how long it has been odd."""
    if seen is None:
        return _odd("it is not on this node any more", "this node's own record of it", odd_for_s)
    if seen.state in ("running", "paused"):
        if seen.instance == state.instance:
            return Judgement(Verdict.WELL, "it answers")
        return _odd("it was started again, and not by an order", "which of its lives is on this node", odd_for_s)
    if seen.state != "stopped":
        return Judgement(Verdict.ILL, seen.detail or f"it is {seen.state}")
    if seen.ending is not None and seen.instance == state.instance:
        return Judgement(Verdict.DEAD, seen.ending.detail, seen.ending)
    patience_s = ODD_S if seen.ending is not None else ORDERED_S
    return _odd("an order ended it and was never told", "this node's own record of it", odd_for_s, patience_s)


def _odd(reason: str, looked_at: str, odd_for_s: float, patience_s: float = ODD_S) -> Judgement:
    if odd_for_s < patience_s:
        return Judgement(Verdict.ODD, reason)
    return Judgement(Verdict.DEAD, reason, Ending(DeathCause.UNKNOWN, reason, looked_at=(looked_at,)))


def death(
    state: SandboxState, ending: Ending, *, now: datetime.datetime, booted: datetime.datetime, over_disk: bool
) -> HealthDied:
    """The fact, but for the last output. `booted`: the machine; `over_disk`: this life was found beyond its disk."""
    cause, detail = ending.cause, ending.detail
    if state.started_at is not None and state.started_at < booted:
        cause, detail = (
            DeathCause.REBOOTED,
            f"the machine was started again at {booted:%Y-%m-%d %H:%M:%S} UTC; {detail}",
        )
    elif over_disk:
        cause, detail = DeathCause.DISK, f"it had filled its disk; {detail}"
    action = action_for(state.spec.restart, cause, ending.exit_code)
    wait_ms = backoff_ms(state, attempts_used(state, now)) if action == DeathAction.RECOVER else 0
    return HealthDied(
        cause=cause,
        detail=detail[:DETAIL],
        exit_code=ending.exit_code,
        signal=ending.signal,
        instance=state.instance,
        action=action,
        due=now + datetime.timedelta(milliseconds=wait_ms),
        looked_at=ending.looked_at if cause == DeathCause.UNKNOWN else (),
    )


def action_for(restart: Restart, cause: DeathCause, exit_code: int | None) -> DeathAction:
    if restart.policy == RestartPolicy.NEVER or restart.max_attempts == 0 or cause == DeathCause.DISK:
        return DeathAction.STOP
    by_itself = cause == DeathCause.EXIT and exit_code == 0
    return DeathAction.STOP if by_itself and restart.policy == RestartPolicy.ON_FAILURE else DeathAction.RECOVER


def failure_of(died: HealthDied) -> Failure:
    return Failure(
        code="SANDBOX_DIED",
        message=f"the sandbox died: {died.detail or died.cause}",
        details={"cause": str(died.cause)},
    )


class Excess(NamedTuple):
    fact: HealthLimitExceeded
    failure: Failure
    grace_ms: int


def beyond_time(state: SandboxState, used: float) -> Excess | None:
    """`used`: milliseconds of this life, also those that nothing ran in. A recovery begins anew."""
    allowed = state.spec.resources.timeout_ms
    if used <= allowed:
        return None
    error = SandboxTimeout(f"it ran for its limit of {allowed} ms", limit="timeout")
    return _excess("timeout", allowed, used, error, GRACE_MS)


def beyond_disk(state: SandboxState, used: int) -> Excess | None:
    allowed = state.spec.resources.disk_mb * MB
    if used <= allowed:
        return None
    words = f"its workspace holds {used // MB} MB, and {allowed // MB} are allowed"
    # What fills the disk is not given time to fill more of it.
    return _excess("disk", allowed, used, SandboxResourceLimitExceeded(words, limit="disk", cause="disk"), 0)


def beyond_idle(state: SandboxState, idle_ms: float) -> Excess | None:
    allowed = state.spec.idle_stop_ms
    if allowed is None or idle_ms <= allowed:
        return None
    return _excess(
        "idle", allowed, idle_ms, SandboxTimeout(f"nothing happened in it for {allowed} ms", limit="idle"), GRACE_MS
    )


def _excess(limit: str, allowed: float, used: float, error: ClocheError, grace_ms: int) -> Excess:
    action = "stop" if grace_ms else "kill"
    fact = HealthLimitExceeded(limit=limit, allowed=allowed, used=used, action=action)
    return Excess(fact, error.failure(), grace_ms)
