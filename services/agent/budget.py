"""What a run may spend. Pure."""

from contracts.events.agent import AgentStarted
from services.agent.record import Spent


class BudgetSpent(Exception):
    """The run is to end; the words say which bound it has come to."""


def overrun(started: AgentStarted, spent: Spent) -> str:
    """The bound that is reached, in words; empty while there is something left. Turns are counted as they begin."""
    if started.max_budget_usd is not None and spent.cost_usd >= started.max_budget_usd:
        return f"{spent.cost_usd:.4f} of {started.max_budget_usd:g} USD"
    if started.max_tokens is not None and spent.tokens >= started.max_tokens:
        return f"{spent.tokens} of {started.max_tokens} tokens"
    if started.max_turns is not None and spent.turns > started.max_turns:
        return f"{spent.turns} of {started.max_turns} turns"
    return ""


def time_left(started: AgentStarted, passed_s: float, paused_s: float) -> float | None:
    """Seconds; None where time is no bound. `passed_s`: since it began, `paused_s` of them paused."""
    return None if started.timeout_ms is None else started.timeout_ms / 1000 + paused_s - passed_s
