"""What the log has lost within a range."""

from contracts.http.lacking import Lack
from infra.bus.connection import Bus
from infra.bus.gaps import Gaps
from infra.bus.stored import state_of
from infra.log.live import LiveView
from infra.log.view import LogView

MOST = 1000


async def lacking(bus: Bus, view: LogView, first: int, last: int) -> tuple[Lack, ...]:
    """As far as the server and the auditor say; what was imported lacks nothing. Raises `Unavailable`."""
    if not isinstance(view, LiveView):
        return ()
    found = await Gaps.of(bus).lost(await state_of(bus), first, last)
    return tuple(Lack(first_sequence=gap.first, last_sequence=gap.last) for gap in found[:MOST])
