"""Many sandboxes of a log that is divided: what happens from now on, in every partition."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from contracts.access import Principal
from contracts.errors import ClocheError, Invalid, SandboxNotFound
from services.gateway.desk import Desk
from services.gateway.live.following import Following
from services.gateway.live.frames import Connected, SubscribeFrame
from services.gateway.live.items import Item
from services.gateway.live.live import Lives
from services.gateway.live.opening import Opened, orders_of
from services.gateway.live.selection import Selection
from services.gateway.live.session import Source
from services.gateway.live.sight import Sight
from services.gateway.patience import patience

REFUSED = (
    "`from`: this log is divided, and each part has sequences of its own: follow one sandbox from a sequence,"
    " or everything from now on"
)


class Divided:
    """What one connection follows. Its cursors outlive a change of filters."""

    def __init__(self, lives: Lives, principal: Principal) -> None:
        self._lives = lives
        self._sights = {number: Sight(live.bus, principal.scope) for number, live in lives.by_number.items()}
        self._cursors: dict[int, int] = {}

    async def begin(self) -> None:
        """From now on."""
        for number, live in self._lives.by_number.items():
            self._cursors[number] = await live.pulse.head() + 1

    async def select(self, frame: SubscribeFrame) -> Selection:
        """Raises `SandboxNotFound` for a sandbox out of sight, `Invalid`."""
        if frame.from_ is not None:
            raise Invalid(REFUSED)
        for sandbox in frame.sandboxes:
            if not await self._sights[self._lives.cloche.number_of(sandbox)].sees(sandbox):
                raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
        some = next(iter(self._sights.values()))
        return Selection(frame.sandboxes or some.only, frame.types)

    async def follow(self, selection: Selection, _: int) -> AsyncGenerator[list[Item], None]:
        """Each partition in its own order, they among each other as they come."""
        waiting: asyncio.Queue[tuple[int, list[Item]] | ClocheError] = asyncio.Queue(1)
        numbers = {self._lives.cloche.number_of(each) for each in selection.sandboxes} or set(self._cursors)
        bringing = [asyncio.create_task(self._bring(number, selection, waiting)) for number in numbers]
        try:
            while True:
                brought = await waiting.get()
                if isinstance(brought, ClocheError):
                    raise brought
                number, items = brought
                yield items
                self._cursors[number] = items[-1].sequence + 1
        finally:
            for task in bringing:
                task.cancel()
            await asyncio.gather(*bringing, return_exceptions=True)

    async def _bring(
        self, number: int, selection: Selection, waiting: asyncio.Queue[tuple[int, list[Item]] | ClocheError]
    ) -> None:
        live = self._lives.by_number[number]
        following = Following(live.bus, live.feeds, self._sights[number], selection, self._cursors[number])
        try:
            async with contextlib.aclosing(following.batches()) as batches:
                async for items in batches:
                    await waiting.put((number, items))
        except ClocheError as error:
            await waiting.put(error)


async def open_divided(desk: Desk, lives: Lives, principal: Principal, wanted: SubscribeFrame) -> Opened:
    """Raises as `open_events` does, and `Invalid` for a cursor."""
    divided = Divided(lives, principal)
    async with patience():
        selection = await divided.select(wanted)
        await divided.begin()
    connected = Connected(sandbox_id=None, status=None, head_sequence=0, buffered_events_count=None)
    source = Source(divided.select, divided.follow, orders_of(desk, principal, None))
    return Opened(connected, source, selection, 1)
