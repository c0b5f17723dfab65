"""What every project and principal holds and has spent, as a fold over the log.

Whoever folds the same events by the same quotas comes to the same verdicts, so nodes that make sandboxes at the same
moment need not ask each other: an event's place in the log says whether there was room for it.
"""

import datetime
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from contracts.codec import decode_fact
from contracts.errors import QuotaExceeded
from contracts.events import sandbox as facts
from contracts.events.agent import AgentMetrics
from contracts.message import EventHead, Fact
from contracts.quotas import (
    KEPT,
    NOTHING,
    Account,
    Kind,
    Quotas,
    QuotaUse,
    Use,
    accounts_of,
    alive,
    refusal,
    spent_out,
)
from contracts.spec import SandboxSpec
from contracts.state import SandboxState, Status

MOST_GONE = 10_000
"""Removed sandboxes whose owners are remembered: the last costs of an agent may be told after its sandbox's end."""
DIGITS = 9
"""Of a sum of costs: ten times a tenth is one, which sums of fractions miss."""
PERIODS_KEPT = 3
"""Of each account: clocks of different nodes, or one that jumps, may tell of a period that is just over."""


class Holding(Struct, frozen=True, kw_only=True):
    """One sandbox."""

    accounts: tuple[Account, ...]
    alive: Use
    """What it takes while it runs."""
    held: Use = NOTHING
    """What it takes now."""
    created: bool = False


class Ledger:
    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self.sequence = 0
        """The last event that was counted."""
        self._holdings: dict[str, Holding] = {}
        self._gone: OrderedDict[str, tuple[Account, ...]] = OrderedDict()
        self._used: dict[Account, Use] = {}
        self._spent: dict[Account, dict[str, float]] = {}
        self._refusals: dict[str, QuotaExceeded] = {}

    def begin(self, state: SandboxState) -> None:
        """A sandbox whose beginning the log has forgotten."""
        lives = state.status in (Status.CREATING, Status.RUNNING, Status.PAUSED)
        holding = Holding(accounts=accounts_of(state.spec, state.by), alive=alive(state.spec), created=state.created)
        self._holdings[state.sandbox] = holding
        self._hold(state.sandbox, holding.alive if lives else KEPT if state.created else NOTHING)

    def apply(self, sequence: int, head: EventHead) -> None:
        """The next event, in the order of the log. Raises `Invalid` when the data of a known tag cannot be read."""
        if sequence <= self.sequence:
            return
        self.sequence = sequence
        fact = decode_fact(head)
        if isinstance(fact, AgentMetrics):
            self._spend(head.sandboxid, fact.cost_usd, head.time)
        elif fact is not None and head.type.startswith("sandbox."):
            self._move(head.sandboxid, fact)

    def verdict(self, sandbox: str) -> QuotaExceeded | None:
        """Whether the last event of a sandbox's life found no room at its place in the log."""
        return self._refusals.get(sandbox)

    def would_create(self, spec: SandboxSpec, by: str, at: datetime.datetime) -> QuotaExceeded | None:
        """Why a sandbox that is asked for now would have no room."""
        accounts = accounts_of(spec, by)
        return self._judge(accounts, alive(spec)) or self._spent_out(accounts, at)

    def would_start(self, sandbox: str) -> QuotaExceeded | None:
        """Why a stopped or failed sandbox that is started now would have no room. None where it runs, or is unknown."""
        holding = self._holdings.get(sandbox)
        return None if holding is None else self._judge(holding.accounts, holding.alive.less(holding.held))

    def spent_out(self, sandbox: str, at: datetime.datetime) -> QuotaExceeded | None:
        """Why the agents of a sandbox may spend no more."""
        return self._spent_out(self._owners(sandbox), at)

    def lines(self, at: datetime.datetime) -> Iterator[QuotaUse]:
        """Everything that is named in the quotas, holds a sandbox, or has spent something, in order."""
        for account in sorted({*_named(self.quotas), *self._used, *self._spent}):
            yield self.line(account, at)

    def line(self, account: Account, at: datetime.datetime) -> QuotaUse:
        return QuotaUse(
            kind=account.kind,
            name=account.name,
            quota=self.quotas.of(account),
            used=self._used.get(account, NOTHING),
            spent_usd=self._spent_by(account, at),
        )

    def _move(self, sandbox: str, fact: Fact) -> None:
        self._refusals.pop(sandbox, None)
        if isinstance(fact, facts.SandboxCreating):
            self._leave(sandbox)
            self._holdings[sandbox] = Holding(accounts=accounts_of(fact.spec, fact.by), alive=alive(fact.spec))
        holding = self._holdings.get(sandbox)
        if holding is None:
            return
        match fact:
            case facts.SandboxCreating() | facts.SandboxRecovering():
                # Whoever has no room here is about to fail, and takes none from those that come after it.
                if not self._finds_no_room(sandbox, holding):
                    self._hold(sandbox, holding.alive)
            case facts.SandboxStarted() | facts.SandboxRecovered():
                self._finds_no_room(sandbox, holding)
                self._hold(sandbox, holding.alive)
            case facts.SandboxCreated():
                self._holdings[sandbox] = replace(holding, created=True)
                self._hold(sandbox, holding.alive)
            case facts.SandboxStopped():
                self._hold(sandbox, KEPT)
            case facts.SandboxFailed() if holding.created:
                self._hold(sandbox, KEPT)
            case facts.SandboxRemoved() | facts.SandboxFailed():
                self._leave(sandbox)

    def _finds_no_room(self, sandbox: str, holding: Holding) -> bool:
        found = self._judge(holding.accounts, holding.alive.less(holding.held))
        if found is not None:
            self._refusals[sandbox] = found
        return found is not None

    def _judge(self, accounts: Iterable[Account], wanted: Use) -> QuotaExceeded | None:
        for account in accounts:
            used = self._used.get(account, NOTHING)
            if (found := refusal(account, self.quotas.of(account), used, wanted)) is not None:
                return found
        return None

    def _hold(self, sandbox: str, held: Use) -> None:
        holding = self._holdings[sandbox]
        for account in holding.accounts:
            used = self._used.get(account, NOTHING).less(holding.held).plus(held)
            if used == NOTHING:
                self._used.pop(account, None)
            else:
                self._used[account] = used
        self._holdings[sandbox] = replace(holding, held=held)

    def _leave(self, sandbox: str) -> None:
        if sandbox not in self._holdings:
            return
        self._hold(sandbox, NOTHING)
        self._gone[sandbox] = self._holdings.pop(sandbox).accounts
        if len(self._gone) > MOST_GONE:
            self._gone.popitem(last=False)

    def _spend(self, sandbox: str, cost_usd: float, at: datetime.datetime) -> None:
        if not (math.isfinite(cost_usd) and cost_usd > 0):
            return
        for account in self._owners(sandbox):
            sums, period = self._spent.setdefault(account, {}), self.quotas.of(account).spend_per.at(at)
            sums[period] = round(sums.get(period, 0) + cost_usd, DIGITS)
            if len(sums) > PERIODS_KEPT:
                del sums[next(iter(sums))]

    def _spent_out(self, accounts: Iterable[Account], at: datetime.datetime) -> QuotaExceeded | None:
        for account in accounts:
            found = spent_out(account, self.quotas.of(account), self._spent_by(account, at))
            if found is not None:
                return found
        return None

    def _spent_by(self, account: Account, at: datetime.datetime) -> float:
        return self._spent.get(account, {}).get(self.quotas.of(account).spend_per.at(at), 0.0)

    def _owners(self, sandbox: str) -> tuple[Account, ...]:
        holding = self._holdings.get(sandbox)
        return holding.accounts if holding is not None else self._gone.get(sandbox, ())


def _named(quotas: Quotas) -> Iterator[Account]:
    yield from (Account(Kind.PROJECT, name) for name in quotas.projects)
    yield from (Account(Kind.PRINCIPAL, name) for name in quotas.principals)
