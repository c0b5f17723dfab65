"""What a run may cost, nearly and wholly spent."""

import math
from collections.abc import Iterator, Mapping

from msgspec import Struct

from contracts.events.agent import AgentCompleted, AgentError, AgentMetrics, AgentStarted
from contracts.guardian import Budget, Finding, Step
from services.guardian.bounded import with_entry, without
from services.guardian.calls import brief
from services.guardian.rules.rule import EVIDENCE, Outcome, Rule
from services.guardian.seen import Seen

RUNS = 64


class Account(Struct, frozen=True):
    max_usd: float | None = None
    max_tokens: int | None = None
    """The run's own, as far as it was started with any."""
    usd: float = 0
    tokens: int = 0
    evidence: tuple[int, ...] = ()


class State(Struct, frozen=True):
    runs: Mapping[str, Account] = {}


def step(settings: Budget, state: State, event: Seen) -> Outcome:
    match event.fact:
        case AgentStarted():
            return Outcome(State(with_entry(state.runs, brief(event.fact.run), _opened(event.fact), RUNS)))
        case AgentMetrics():
            run = brief(event.fact.run)
            account = _spent(state.runs.get(run) or Account(), event.fact, event.sequence)
            after = State(with_entry(state.runs, run, account, RUNS))
            return Outcome(after, tuple(_findings(settings, run, account)))
        case AgentCompleted() | AgentError():
            return Outcome(State(without(state.runs, brief(event.fact.run))))
    return Outcome(state)


def _opened(fact: AgentStarted) -> Account:
    """With what `agent.start` asked for, where the event says so."""
    usd, tokens = getattr(fact, "max_budget_usd", None), getattr(fact, "max_tokens", None)
    return Account(
        max_usd=float(usd) if isinstance(usd, int | float) and usd > 0 else None,
        max_tokens=tokens if isinstance(tokens, int) and tokens > 0 else None,
    )


def _spent(account: Account, fact: AgentMetrics, sequence: int) -> Account:
    usd = account.usd + max(0.0, fact.cost_usd)
    return Account(
        max_usd=account.max_usd,
        max_tokens=account.max_tokens,
        usd=usd if math.isfinite(usd) else account.usd,
        tokens=account.tokens + max(0, fact.input_tokens) + max(0, fact.output_tokens),
        evidence=(*account.evidence, sequence)[-EVIDENCE:],
    )


def _findings(settings: Budget, run: str, account: Account) -> Iterator[Finding]:
    kinds = (
        ("usd", account.usd, account.max_usd or settings.max_usd, "$"),
        ("tokens", float(account.tokens), account.max_tokens or settings.max_tokens, ""),
    )
    for kind, used, limit, sign in kinds:
        if limit is None or used < settings.near * limit:
            continue
        spent = used >= limit
        words = "is spent" if spent else "is nearly spent"
        yield Finding(
            rule=RULE.name,
            key=f"{run}/{kind}/{'spent' if spent else 'near'}",
            text=f"the budget {words}: {sign}{used:g} of {sign}{limit:g} {kind if not sign else ''}".rstrip(),
            evidence=account.evidence,
            run=run,
            at_most=Step.STOP if spent else Step.GUIDANCE,
        )


RULE = Rule(
    name="budget",
    about="what a run has cost comes near its budget, or is over it",
    reads=frozenset({"agent.started", "agent.metrics", "agent.completed", "agent.error"}),
    settings=Budget,
    begin=State,
    step=step,
)
