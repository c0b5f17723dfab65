"""How much of their quotas projects and principals use, as a program outside sees it."""

from collections.abc import AsyncIterator

from msgspec.structs import replace

from contracts import subjects
from contracts.quotas import Account, GetQuotas, QuotaList, QuotaUse
from infra.bus.connection import Bus
from infra.client.asking import ask

FIRST_TIMEOUT_S = 60.0
"""The first question takes as long as reading every sandbox's life out of the log."""


async def quotas(bus: Bus, query: GetQuotas | None = None) -> QuotaList:
    """One page. Raises `Unavailable`."""
    found: QuotaList = await ask(
        bus, subjects.state_rpc("quotas"), query or GetQuotas(), QuotaList, timeout=FIRST_TIMEOUT_S
    )
    return found


async def every_quota(bus: Bus, query: GetQuotas | None = None) -> AsyncIterator[QuotaUse]:
    """Page after page. Raises `Unavailable`."""
    asked, more = query or GetQuotas(), True
    while more:
        page = await quotas(bus, asked)
        for line in page.quotas:
            yield line
            asked = replace(asked, after=Account(line.kind, line.name))
        more = page.more
