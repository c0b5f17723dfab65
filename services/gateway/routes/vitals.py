"""What a sandbox uses, now and lately."""

import datetime
from collections import deque
from typing import Annotated

from litestar import Router, get
from litestar.params import QueryParameter

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events.health import VitalsMetrics
from contracts.http.vitals import Sample, Vitals
from contracts.streams import VITALS_STREAM
from infra import clock
from infra.bus import page
from infra.bus.page import Entry
from infra.client.vitals import newest
from services.gateway.desk import Desk
from services.gateway.routes.looking import present
from services.gateway.routes.params import Found, Limit, TheDesk

LONGEST_S = 3600
"""They are kept no longer."""


@get("/metrics", operation_id="getMetrics", summary="What a sandbox uses")
async def metrics(
    desk: TheDesk,
    found: Found,
    minutes: Annotated[
        float,
        QueryParameter(gt=0, le=LONGEST_S / 60, description="How far back `recent` reaches; they are kept an hour."),
    ] = 15,
    limit: Limit = 1000,
) -> Vitals:
    """Processor, memory, processes, disk and network: the newest measurement, and those before it."""
    since = clock.now() - datetime.timedelta(minutes=minutes)
    known = (await newest(desk.bus, [found.id])).get(found.id)
    current = None
    if known is not None and known.metrics is not None and known.measured_at is not None:
        current = Sample(at=known.measured_at, use=known.metrics)
    return Vitals(
        sandbox=found.id,
        health=(await present(desk, found)).health,
        beat_at=None if known is None else known.beat_at,
        current=current,
        recent=await _recent(desk, found.id, since, limit, current),
    )


async def _recent(
    desk: Desk, sandbox: str, since: datetime.datetime, limit: int, current: Sample | None
) -> tuple[Sample, ...]:
    """The newest `limit`, oldest first."""
    if limit == 1:
        # Lists ask for it again and again, for each sandbox in them.
        return (current,) if current is not None and current.at >= since else ()
    newest_entries: deque[Entry] = deque(maxlen=limit)
    subject = subjects.vitals(sandbox, "metrics")
    kept = await page.fetch(desk.bus, subject, 1, since=since, stream=VITALS_STREAM)
    newest_entries.extend(kept.entries)
    while kept.pending and kept.entries:
        kept = await page.fetch(desk.bus, subject, kept.entries[-1].seq + 1, stream=VITALS_STREAM)
        newest_entries.extend(kept.entries)
    return tuple(sample for entry in newest_entries if (sample := _sample(entry)) is not None)


def _sample(entry: Entry) -> Sample | None:
    try:
        head = codec.decode_head(entry.data)
        fact = codec.decode_fact(head)
    except Invalid:
        return None
    return Sample(at=head.time, use=fact) if isinstance(fact, VitalsMetrics) else None


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[metrics], tags=["state"])
