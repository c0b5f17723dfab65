"""How much a project and a principal may have at a time, and spend. Pure."""

import datetime
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from contracts.askers import asker
from contracts.errors import QuotaExceeded
from contracts.message import Order
from contracts.spec import SandboxSpec

MILLI = 1000
"""Of CPUs: sums of fractions drift, sums of thousandths do not."""

Named = Annotated[str, Meta(max_length=200)]


class Period(StrEnum):
    """What a limit of spending is for. Days and months are those of UTC."""

    DAY = "day"
    MONTH = "month"
    EVER = "ever"
    """As far back as the log goes."""

    def at(self, time: datetime.datetime) -> str:
        """The period that a moment belongs to: later ones sort behind it."""
        if self is Period.EVER:
            return ""
        return f"{time.astimezone(datetime.UTC):{'%Y-%m-%d' if self is Period.DAY else '%Y-%m'}}"


class Quota(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of one project or principal. What is absent is not limited."""

    sandboxes: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None
    """That there are, stopped ones too."""
    cpus: Annotated[float, Meta(ge=0, le=100_000_000)] | None = None
    """Of those that run, are paused, or are being made; as their specifications say."""
    memory_mb: Annotated[int, Meta(ge=0, le=1 << 50)] | None = None
    """Of the same."""
    spend_usd: Annotated[float, Meta(ge=0, le=1_000_000_000_000)] | None = None
    """By agents, in the current period."""
    spend_per: Period = Period.MONTH

    @property
    def limits_anything(self) -> bool:
        return any(each is not None for each in (self.sandboxes, self.cpus, self.memory_mb, self.spend_usd))


class Kind(StrEnum):
    PROJECT = "project"
    PRINCIPAL = "principal"


class Account(NamedTuple):
    """What has a quota. An empty name is everything that has none: it shares one quota."""

    kind: Kind
    name: str


class Quotas(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is named has exactly the limits that are written there, and none of the general ones."""

    project: Quota = Quota()
    """Of each project that is not named."""
    principal: Quota = Quota()
    """Of everybody who is not named."""
    projects: Annotated[dict[Named, Quota], Meta(max_length=10_000)] = {}
    principals: Annotated[dict[Named, Quota], Meta(max_length=10_000)] = {}

    def of(self, account: Account) -> Quota:
        if account.kind is Kind.PROJECT:
            return self.projects.get(account.name, self.project)
        return self.principals.get(account.name, self.principal)

    @property
    def every(self) -> tuple[Quota, ...]:
        return (self.project, self.principal, *self.projects.values(), *self.principals.values())

    @property
    def limit_anything(self) -> bool:
        return any(quota.limits_anything for quota in self.every)

    @property
    def limit_spending(self) -> bool:
        return any(quota.spend_usd is not None for quota in self.every)


class Use(Struct, frozen=True, kw_only=True):
    """What is held at a time."""

    sandboxes: int = 0
    cpus: float = 0
    memory_mb: int = 0

    def plus(self, other: "Use") -> "Use":
        return self._changed(other, 1)

    def less(self, other: "Use") -> "Use":
        return self._changed(other, -1)

    def _changed(self, other: "Use", sign: int) -> "Use":
        return Use(
            sandboxes=self.sandboxes + sign * other.sandboxes,
            cpus=(round(self.cpus * MILLI) + sign * round(other.cpus * MILLI)) / MILLI,
            memory_mb=self.memory_mb + sign * other.memory_mb,
        )


NOTHING = Use()


class QuotaUse(Struct, frozen=True, kw_only=True):
    """One line of `cloche quotas`."""

    kind: Kind
    name: str
    quota: Quota
    used: Use
    spent_usd: float
    """In the current period of its quota."""


def summed(lines: Iterable[QuotaUse]) -> list[QuotaUse]:
    """Each project and principal once, in order, where several logs count for themselves."""
    found: dict[Account, QuotaUse] = {}
    for line in lines:
        account = Account(line.kind, line.name)
        if (known := found.get(account)) is not None:
            line = replace(known, used=known.used.plus(line.used), spent_usd=known.spent_usd + line.spent_usd)
        found[account] = line
    return [found[account] for account in sorted(found)]


class GetQuotas(Order, frozen=True, kw_only=True):
    """Everything that is named in the quotas, holds a sandbox, or has spent something."""

    kind: Kind | None = None
    name: Named | None = None
    """Only what is called so."""
    after: Account | None = None
    """Continue behind this one."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000


class QuotaList(Struct, frozen=True, kw_only=True):
    quotas: tuple[QuotaUse, ...]
    """Principals, then projects, each by name."""
    more: bool
    applied_sequence: int
    """How far the log was counted."""


REQUESTS: dict[str, type[Order]] = {"quotas": GetQuotas}
ANSWERS: dict[str, type[Struct]] = {"quotas": QuotaList}


def accounts_of(spec: SandboxSpec, by: str) -> tuple[Account, ...]:
    """Whom a sandbox counts for: its project, and whoever asked for it."""
    return Account(Kind.PROJECT, spec.project_id or ""), Account(Kind.PRINCIPAL, asker(by))


def alive(spec: SandboxSpec) -> Use:
    """What it takes while it runs."""
    return Use(sandboxes=1, cpus=spec.resources.cpus, memory_mb=spec.resources.memory_mb)


KEPT = Use(sandboxes=1)
"""What a stopped one takes: its disk."""


def refusal(account: Account, quota: Quota, used: Use, wanted: Use) -> QuotaExceeded | None:
    """None where `wanted` fits beside what is used. What is not wanted more of is not looked at."""
    then = used.plus(wanted)
    for resource in ("sandboxes", "cpus", "memory_mb"):
        limit, more = getattr(quota, resource), getattr(wanted, resource)
        have = getattr(used, resource)
        if limit is not None and more > 0 and getattr(then, resource) > limit:
            words = f"{_name(account)} has {_number(have)} of {_number(limit)} {_UNITS[resource]}"
            message = f"{words}, and this takes {_number(more)} more: {_TODO[resource]}, or have the quota raised"
            return _exceeded(account, resource, _number(have), _number(limit), message)
    return None


def spent_out(account: Account, quota: Quota, spent_usd: float) -> QuotaExceeded | None:
    """None while there is something left to spend."""
    if quota.spend_usd is None or spent_usd < quota.spend_usd:
        return None
    spent, limit = f"{spent_usd:.4f}", _number(quota.spend_usd)
    words = f"agents of {_name(account)} have spent {spent} of {limit} USD{_WHEN[quota.spend_per]}"
    return _exceeded(account, "spend_usd", spent, limit, f"{words}: {_NEXT[quota.spend_per]}have the quota raised")


_UNITS = {"sandboxes": "sandboxes", "cpus": "CPUs", "memory_mb": "MB of memory"}
_TODO = {"sandboxes": "remove one", "cpus": "stop or remove a sandbox", "memory_mb": "stop or remove a sandbox"}
_WHEN = {Period.DAY: " today", Period.MONTH: " this month", Period.EVER: ""}
_NEXT = {
    Period.DAY: "wait for tomorrow (UTC), or ",
    Period.MONTH: "wait for the next month (UTC), or ",
    Period.EVER: "",
}


def _name(account: Account) -> str:
    if account.name:
        return f"{account.kind} {account.name!r}"
    return "what has no project" if account.kind is Kind.PROJECT else "whoever gives no name"


def _number(value: float) -> str:
    return f"{value:.12g}"


def _exceeded(account: Account, resource: str, used: str, limit: str, message: str) -> QuotaExceeded:
    details = {"kind": str(account.kind), "name": account.name, "resource": resource, "used": used, "limit": limit}
    return QuotaExceeded(f"quota: {message}", **details)
