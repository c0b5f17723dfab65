"""What a sandbox uses, now and lately."""

import datetime
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
    kept = await page.fetch(
        desk.bus, subjects.vitals(found.id, "metrics"), 1, since=since, limit=1000, stream=VITALS_STREAM
    )
    samples = [sample for entry in kept.entries if (sample := _sample(entry)) is not None]
    known = (await newest(desk.bus, [found.id])).get(found.id)
    current = None
    if known is not None and known.metrics is not None and known.measured_at is not None:
        current = Sample(at=known.measured_at, use=known.metrics)
    return Vitals(
        sandbox=found.id,
        health=(await present(desk, found)).health,
        beat_at=None if known is None else known.beat_at,
        current=current,
        recent=tuple(samples[-limit:]),
    )


def _sample(entry: Entry) -> Sample | None:
    try:
        head = codec.decode_head(entry.data)
        fact = codec.decode_fact(head)
    except Invalid:
        return None
    return Sample(at=head.time, use=fact) if isinstance(fact, VitalsMetrics) else None


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[metrics], tags=["state"])
