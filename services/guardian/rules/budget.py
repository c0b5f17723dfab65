"""What a run may spend, nearly and wholly spent: money, tokens, turns, time."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from contracts.events.agent import AgentCompleted, AgentError, AgentMetrics, AgentPaused, AgentResumed, AgentStarted
from contracts.guardian import Budget, Finding, Step
from services.guardian.bounded import with_entry, without
from services.guardian.calls import brief
from services.guardian.rules.rule import EVIDENCE, Outcome, Rule
from services.guardian.seen import TICK, Seen

T = TypeVar("T", int, float)

RUNS = 64
BOUNDLESS = 10**15


class Account(Struct, frozen=True):
    began_ms: int | None = None
    """None where its beginning is not known; later by each pause that it had."""
    paused_ms: int | None = None
    """Since when it is paused: meanwhile no time passes for it."""
    max_usd: float | None = None
    max_tokens: int | None = None
    max_turns: int | None = None
    max_ms: int | None = None
    """The run's own, as far as it was started with any."""
    usd: float = 0
    tokens: int = 0
    turns: int = 0
    evidence: tuple[int, ...] = ()
    moments: int = 0
    """How many moments of its time have passed: nearly spent, spent."""


class State(Struct, frozen=True):
    runs: Mapping[str, Account] = {}


class _Spent(NamedTuple):
    kind: str
    used: float
    limit: float | None
    words: str


def step(settings: Budget, state: State, event: Seen) -> Outcome:
    if event.tag == TICK:
        return _look(settings, state, event.at_ms)
    match event.fact:
        case AgentStarted():
            return Outcome(State(with_entry(state.runs, brief(event.fact.run), _opened(event.fact, event), RUNS)))
        case AgentMetrics():
            run = brief(event.fact.run)
            account = _charged(state.runs.get(run) or Account(), event.fact, event.sequence)
            after = State(with_entry(state.runs, run, account, RUNS))
            spent = [*_spendings(settings, account), _time(settings, account, event.at_ms)]
            return Outcome(after, tuple(_findings(settings, run, account, spent)))
        case AgentPaused() | AgentResumed():
            return Outcome(_held(state, brief(event.fact.run), event))
        case AgentCompleted() | AgentError(final=True):
            return Outcome(State(without(state.runs, brief(event.fact.run))))
    return Outcome(state)


def due(settings: Budget, state: State) -> int | None:
    moments = [moment for account in state.runs.values() if (moment := _due(settings, account)) is not None]
    return min(moments, default=None)


def _due(settings: Budget, account: Account) -> int | None:
    limit = _max_ms(settings, account)
    if limit is None or account.began_ms is None or account.moments > 1 or account.paused_ms is not None:
        return None
    return account.began_ms + (limit if account.moments else math.ceil(limit * settings.near))


def _look(settings: Budget, state: State, now_ms: int) -> Outcome:
    findings: list[Finding] = []
    for run, account in state.runs.items():
        moment = _due(settings, account)
        if moment is not None and moment <= now_ms:
            findings += _findings(settings, run, account, [_time(settings, account, now_ms)])
            passed = replace(account, moments=account.moments + 1)
            state = State({**state.runs, run: passed})
    return Outcome(state, tuple(findings))


def _held(state: State, run: str, event: Seen) -> State:
    account = state.runs.get(run)
    if account is None:
        return state
    if isinstance(event.fact, AgentPaused):
        held = replace(account, paused_ms=event.at_ms if account.paused_ms is None else account.paused_ms)
    else:
        lasted = 0 if account.paused_ms is None else max(0, event.at_ms - account.paused_ms)
        began_ms = None if account.began_ms is None else account.began_ms + lasted
        held = replace(account, paused_ms=None, began_ms=began_ms)
    return State({**state.runs, run: held})


def _opened(fact: AgentStarted, event: Seen) -> Account:
    """With what `agent.start` asked for; a bound of nothing, or of less, is none."""
    return Account(
        began_ms=event.at_ms,
        max_usd=_positive(fact.max_budget_usd),
        max_tokens=_positive(fact.max_tokens),
        max_turns=_positive(fact.max_turns),
        max_ms=_positive(fact.timeout_ms),
        evidence=(event.sequence,),
    )


def _positive(bound: T | None) -> T | None:
    """What nobody could ever spend is no bound either."""
    return bound if bound is not None and 0 < bound < BOUNDLESS else None


def _charged(account: Account, fact: AgentMetrics, sequence: int) -> Account:
    usd = account.usd + max(0.0, fact.cost_usd)
    return replace(
        account,
        usd=usd if math.isfinite(usd) else account.usd,
        tokens=account.tokens + max(0, fact.input_tokens) + max(0, fact.output_tokens),
        turns=account.turns + max(0, fact.turns),
        evidence=(*account.evidence, sequence)[-EVIDENCE:],
    )


def _spendings(settings: Budget, account: Account) -> Iterator[_Spent]:
    usd = account.max_usd or settings.max_usd
    yield _Spent("usd", account.usd, usd, f"${account.usd:,.2f} of ${usd or 0:,.2f}")
    tokens = account.max_tokens or settings.max_tokens
    yield _Spent("tokens", account.tokens, tokens, f"{account.tokens:,} of {tokens or 0:,} tokens")
    turns = account.max_turns or settings.max_turns
    yield _Spent("turns", account.turns, turns, f"{account.turns:,} of {turns or 0:,} turns")


def _time(settings: Budget, account: Account, now_ms: int) -> _Spent:
    until = now_ms if account.paused_ms is None else account.paused_ms
    used, limit = until - (account.began_ms or until), _max_ms(settings, account)
    return _Spent("time", used, limit, f"{used / 1000:,.0f} of {(limit or 0) / 1000:,.0f} seconds")


def _max_ms(settings: Budget, account: Account) -> int | None:
    return account.max_ms or (None if settings.max_s is None else int(settings.max_s * 1000))


def _findings(settings: Budget, run: str, account: Account, spent: list[_Spent]) -> Iterator[Finding]:
    for kind, used, limit, words in spent:
        if limit is None or used < settings.near * limit:
            continue
        is_over = used >= limit
        yield Finding(
            rule=RULE.name,
            key=f"{run}/{kind}/{'spent' if is_over else 'near'}",
            text=f"the budget is {'' if is_over else 'nearly '}spent: {words}",
            evidence=account.evidence,
            run=run,
            at_most=Step.STOP if is_over else Step.GUIDANCE,
        )


RULE = Rule(
    name="budget",
    about="what a run has spent (money, tokens, turns, time) comes near its budget, or is over it",
    reads=frozenset(
        {"agent.started", "agent.metrics", "agent.paused", "agent.resumed", "agent.completed", "agent.error"}
    ),
    settings=Budget,
    begin=State,
    step=step,
    due=due,
)
