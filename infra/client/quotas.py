"""How much of their quotas projects and principals use, as a program outside sees it."""

from collections.abc import AsyncIterator, Iterable

from msgspec.structs import replace

from contracts import subjects
from contracts.quotas import Account, GetQuotas, QuotaList, QuotaUse, summed
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


async def quotas_of_all(buses: Iterable[Bus], query: GetQuotas) -> QuotaList:
    """One page over several logs, each of which counts for itself: everybody once. Raises `Unavailable`."""
    pages = [await quotas(bus, query) for bus in buses]
    # Behind the end of a page that has more, others may know of somebody whom it has not come to.
    ends = [_account(page.quotas[-1]) for page in pages if page.more]
    lines = summed(line for page in pages for line in page.quotas)
    whole = [line for line in lines if all(_account(line) <= end for end in ends)]
    return QuotaList(
        quotas=tuple(whole[: query.limit]),
        more=bool(ends) or len(whole) > query.limit,
        applied_sequence=max(page.applied_sequence for page in pages),
    )


def _account(line: QuotaUse) -> Account:
    return Account(line.kind, line.name)


async def every_quota(bus: Bus, query: GetQuotas | None = None) -> AsyncIterator[QuotaUse]:
    """Page after page. Raises `Unavailable`."""
    asked, more = query or GetQuotas(), True
    while more:
        page = await quotas(bus, asked)
        for line in page.quotas:
            yield line
            asked = replace(asked, after=_account(line))
        more = page.more
