"""Answers how much of their quotas projects and principals use."""

import asyncio
from collections.abc import Iterator

from contracts.ledger import Ledger
from contracts.quotas import Account, GetQuotas, QuotaList, Quotas, QuotaUse
from infra import clock
from infra.bus.connection import Bus
from infra.usage import Usage
from services.replay.handlers import Answers


class QuotasInUse:
    """Nothing is counted before somebody asks; from then on it is kept up to date."""

    def __init__(self, bus: Bus, quotas: Quotas, tasks: asyncio.TaskGroup) -> None:
        self._usage = Usage(bus, quotas)
        self._tasks = tasks
        self._following: asyncio.Task[None] | None = None

    def answers(self) -> Answers:
        return {"quotas": self._quotas}

    async def _quotas(self, query: GetQuotas) -> QuotaList:
        if self._following is None:
            self._following = self._tasks.create_task(self._usage.follow())
        await self._usage.caught_up.wait()
        ledger = await self._usage.newest()
        found = list(_wanted(ledger, query))
        return QuotaList(
            quotas=tuple(found[: query.limit]),
            more=len(found) > query.limit,
            applied_sequence=ledger.sequence,
        )


def _wanted(ledger: Ledger, query: GetQuotas) -> Iterator[QuotaUse]:
    if query.kind is not None and query.name is not None:
        # Also whoever has nothing yet: what they may have is worth knowing.
        yield ledger.line(Account(query.kind, query.name), clock.now())
        return
    for line in ledger.lines(clock.now()):
        is_wanted = query.kind in (None, line.kind) and query.name in (None, line.name)
        if is_wanted and (query.after is None or (line.kind, line.name) > query.after):
            yield line
