"""The connections of a client, one for each partition, and which of them a sandbox is reached by."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from contracts import partitions
from contracts.errors import Invalid
from infra.access import open_as
from infra.bus import partitions as stored
from infra.bus.connection import Bus
from infra.ids import new_id
from infra.realms import parts
from infra.settings import Settings


class Partitions:
    """`count` is what the store was made with; `buses` are those that are open, by their number."""

    def __init__(self, buses: Mapping[int, Bus], count: int) -> None:
        self.buses = dict(buses)
        self.count = count

    @classmethod
    def undivided(cls, bus: Bus) -> "Partitions":
        return cls({0: bus}, 1)

    def holds(self, sandbox: str) -> bool:
        return partitions.partition_of(sandbox, self.count) in self.buses

    def number_of(self, sandbox: str) -> int:
        """Raises `Invalid` for a sandbox of a partition that is not open here."""
        number = partitions.partition_of(sandbox, self.count)
        if number not in self.buses:
            raise Invalid(f"sandbox {sandbox!r} is in partition {number}, and CLOCHE_PARTITION names another")
        return number

    def of(self, sandbox: str) -> Bus:
        return self.buses[self.number_of(sandbox)]

    @property
    def only(self) -> Bus:
        """Raises `Invalid` where there are several."""
        if len(self.buses) > 1:
            raise Invalid(
                f"this is about one log, and there are {self.count}:"
                f" name a sandbox, or choose one with CLOCHE_PARTITION=0 to {self.count - 1}"
            )
        return next(iter(self.buses.values()))

    def new_sandbox(self) -> str:
        """A fresh id, of a partition that is open here."""
        return self._fresh(set(self.buses))

    def new_beside(self, origin: str) -> str:
        """A fresh id in the same partition: one begins as another was by the log and the contents of that one."""
        return self._fresh({self.number_of(origin)})

    def _fresh(self, wanted: set[int]) -> str:
        while partitions.partition_of(sandbox := new_id("sb"), self.count) not in wanted:
            pass
        return sandbox


@asynccontextmanager
async def open_partitions(settings: Settings, user: str) -> AsyncIterator[Partitions]:
    """Raises `Invalid` where the store was made with another number of partitions, and what `open_as` raises."""
    if settings.partitions == 1:
        async with open_as(settings, user) as bus:
            yield Partitions.undivided(bus)
        return
    async with AsyncExitStack() as stack:
        opening = (_open(stack, part, user, settings.partitions) for part in parts(settings))
        # All come to an end before the first failure is told: what one of them opened is closed with the rest.
        opened = await asyncio.gather(*opening, return_exceptions=True)
        buses = [_unless_failed(each) for each in opened]
        chosen = range(settings.partitions) if settings.partition is None else (settings.partition,)
        yield Partitions(dict(zip(chosen, buses, strict=True)), settings.partitions)


async def _open(stack: AsyncExitStack, part: Settings, user: str, count: int) -> Bus:
    bus = await stack.enter_async_context(open_as(part, user))
    await stored.check(bus, count)
    return bus


def _unless_failed(opened: Bus | BaseException) -> Bus:
    if isinstance(opened, BaseException):
        raise opened
    return opened
