"""What a sandbox used at a time, where the vitals of that time are still kept."""

import datetime

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events.health import VitalsMetrics
from contracts.streams import VITALS_STREAM
from infra.bus import page
from infra.bus.connection import Bus

LOOKS = 2.5
"""A measure is of use for so many intervals between two looks at a sandbox."""


async def use_at(bus: Bus, sandbox: str, time: datetime.datetime, *, every_s: float) -> VitalsMetrics | None:
    """The last measure up to a time. Raises `Unavailable`."""
    since = time - datetime.timedelta(seconds=every_s * LOOKS)
    found = await page.fetch(bus, subjects.vitals(sandbox, "metrics"), 1, since=since, stream=VITALS_STREAM)
    newest: VitalsMetrics | None = None
    for entry in found.entries:
        if entry.time > time:
            break
        newest = _metrics(entry.data) or newest
    return newest


def _metrics(raw: bytes) -> VitalsMetrics | None:
    try:
        fact = codec.decode_fact(codec.decode_head(raw))
    except Invalid:
        return None
    return fact if isinstance(fact, VitalsMetrics) else None
