"""Which log a sandbox's record is in."""

from contracts import subjects
from infra.bus import reader
from infra.bus.connection import Bus
from infra.log.archived import ArchivedView
from infra.log.imports import find_import
from infra.log.live import LiveView
from infra.log.view import LogView


async def view_of(bus: Bus, sandbox: str) -> LogView:
    """The log of this Cloche, unless the sandbox was imported and is not known here. Raises `Unavailable`."""
    record = await find_import(bus, sandbox)
    # Its life, and not just anything: an order about an imported one that was refused is told under its name here.
    if record is None or await reader.last(bus, subjects.lifecycle(sandbox)) is not None:
        return LiveView(bus)
    return ArchivedView(bus, record)
