"""Why things end, in words. Pure."""

import signal

from contracts.events.health import DeathAction, DeathCause, HealthDied, HealthLimitExceeded
from contracts.spec import RestartPolicy, SandboxSpec
from services.cli.measures import duration, size_in_words

MB = 1024 * 1024


def cause_of(died: HealthDied, spec: SandboxSpec) -> str:
    """`it ran out of memory`: what a death came from, without the details."""
    match died.cause:
        case DeathCause.EXIT:
            return f"its first process ended with code {died.exit_code}"
        case DeathCause.OOM:
            return f"it ran out of memory (it may have {size_in_words(spec.resources.memory_mb * MB)})"
        case DeathCause.KILLED:
            return f"its first process was killed by {signal_name(died.signal)}"
        case DeathCause.DISK:
            return f"it filled its disk (it may have {size_in_words(spec.resources.disk_mb * MB)})"
        case DeathCause.ENGINE_LOST:
            return "its engine was lost, and took it along"
        case DeathCause.REBOOTED:
            return "the machine was started again"
    return "it died, and nobody can say why"


def details_of(died: HealthDied) -> str:
    """What the node noted of it; empty where there is nothing."""
    parts = [died.detail] if died.detail else []
    if died.looked_at:
        parts.append(f"looked at: {', '.join(died.looked_at)}")
    return f": {'; '.join(parts)}" if parts else ""


def signal_name(number: int | None) -> str:
    if number is None:
        return "a signal that is not known"
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def why_not_recovered(died: HealthDied, spec: SandboxSpec) -> str | None:
    """None where it is to be recovered."""
    if died.action == DeathAction.RECOVER:
        return None
    if spec.restart.policy == RestartPolicy.NEVER:
        return "its restart policy is `never`"
    if spec.restart.max_attempts == 0:
        return "its restart policy allows no attempts"
    if died.cause == DeathCause.DISK:
        return "a full disk would be full again"
    if died.cause == DeathCause.EXIT and died.exit_code == 0:
        return "it ended by itself with code 0, and its restart policy is `on_failure`"
    return "a stop was asked for instead"


def excess_of(fact: HealthLimitExceeded) -> str:
    match fact.limit:
        case "timeout":
            return f"it had run for {duration(fact.used)}, and may run for {duration(fact.allowed)}"
        case "disk":
            return f"its workspace held {size_in_words(fact.used)}, and may hold {size_in_words(fact.allowed)}"
        case "idle":
            allowed = duration(fact.allowed)
            return f"nothing had happened in it for {duration(fact.used)}, and it is to be stopped after {allowed}"
    return f"it used {fact.used:g} of {fact.limit}, and may use {fact.allowed:g}"


def consequence(fact: HealthLimitExceeded) -> str:
    return {"stop": "it is stopped", "kill": "it is stopped at once"}.get(fact.action, f"the action is {fact.action}")


def attempts_in_words(attempt: int, spec: SandboxSpec) -> str:
    """`attempt 2 of 3`; what a person asks for is not counted."""
    return f"attempt {attempt} of {spec.restart.max_attempts}" if attempt else "as somebody asked"
