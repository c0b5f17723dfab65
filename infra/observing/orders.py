"""An order from when it is taken until it is settled: what is counted of it, and what is said to be about it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from nats.aio.msg import Msg

from infra import asking, clock
from infra.bus.connection import Bus
from infra.observing import catalogue, spans, tracing
from infra.observing.about import Order, about

CANCELLED = "cancelled"
FAILED = ("refused", "dead")


class Taken:
    def __init__(self, msg: Msg) -> None:
        self.msg = msg
        self.outcome = CANCELLED
        """Whoever settles it says how."""


@contextmanager
def _traced(order: Order, it: Taken, delivered: int) -> Iterator[None]:
    """A part of what the order is a part of; of nothing where whoever sent it does not say."""
    given = tracing.place_of((it.msg.headers or {}).get("traceparent"))
    here = given or (tracing.new_place() if spans.is_on() else None)
    if here is None:
        yield
        return
    inside = here._replace(span=spans.span_id("take", order.command, str(delivered))) if spans.is_on() else here
    token, start = asking.traceparent.set(inside.header()), time.time_ns()
    try:
        yield
    finally:
        asking.traceparent.reset(token)
        waited = round(start / 1e9 - order.stored_at.timestamp(), 6)
        said: dict[str, spans.Value] = {
            "cloche.outcome": it.outcome,
            "cloche.waited_s": waited,
            "cloche.delivered": delivered,
        }
        tracing.tell(
            f"take {'.'.join(order.subject.split('.')[-2:])}",
            inside,
            here.span,
            start,
            time.time_ns(),
            {**tracing.named(order.sandbox, order.command), **said},
            failure=it.outcome if it.outcome in FAILED else "",
            kind="consumer",
        )


@contextmanager
def taken(bus: Bus, msg: Msg) -> Iterator[Taken]:
    """While an order is being carried out."""
    service, meta = bus.service, msg.metadata
    stored_at = meta.timestamp
    catalogue.orders_pulled.add(service)
    catalogue.order_wait.observe((clock.now() - stored_at).total_seconds(), service)
    held = catalogue.orders_in_hand.of(service)
    held.value += 1
    begun, it, order = time.perf_counter(), Taken(msg), Order(msg.subject, msg.data, stored_at)
    try:
        with about(order), _traced(order, it, meta.num_delivered):
            yield it
    finally:
        held.value -= 1
        catalogue.order_seconds.observe(time.perf_counter() - begun, service)
        catalogue.orders_settled.add(service, it.outcome)
