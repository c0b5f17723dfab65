"""An order from when it is taken until it is settled: what is counted of it, and what is said to be about it."""

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nats.aio.msg import Msg

from infra import asking, clock
from infra.bus.connection import Bus
from infra.observing import catalogue, spans, tracing
from infra.observing.about import Order, about
from infra.observing.within import within

CANCELLED = "cancelled"
NOBODY = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class Taken:
    def __init__(self, msg: Msg) -> None:
        self.msg = msg
        self.outcome = CANCELLED
        """Whoever settles it says how."""


class InHand:
    """The orders of one consumer that are being carried out, by when they were stored."""

    def __init__(self) -> None:
        self._stored: dict[int, datetime.datetime] = {}

    def put(self, sequence: int, stored_at: datetime.datetime) -> None:
        self._stored[sequence] = stored_at

    def drop(self, sequence: int) -> None:
        self._stored.pop(sequence, None)

    def oldest_s(self) -> float:
        oldest = min(self._stored.values(), default=None)
        return 0.0 if oldest is None else (clock.now() - oldest).total_seconds()


_in_hand: dict[str, InHand] = {}


def _hand(durable: str) -> InHand:
    if durable not in _in_hand:
        _in_hand[durable] = InHand()
        catalogue.queue_oldest.of(durable).asks = (_in_hand[durable].oldest_s,)
    return _in_hand[durable]


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
            failure=it.outcome if it.outcome == "dead" else "",
            kind="consumer",
        )


@contextmanager
def taken(bus: Bus, msg: Msg) -> Iterator[Taken]:
    """While an order is being carried out."""
    service, meta = bus.service, msg.metadata
    stored_at, hand, sequence = meta.timestamp, _hand(within(bus, meta.consumer)), meta.sequence.stream
    catalogue.orders_pulled.add(service)
    catalogue.order_wait.observe((clock.now() - stored_at).total_seconds(), service)
    held = catalogue.orders_in_hand.of(service)
    held.value += 1
    hand.put(sequence, stored_at)
    begun, it, order = time.perf_counter(), Taken(msg), Order(msg.subject, msg.data, stored_at)
    try:
        with about(order), _traced(order, it, meta.num_delivered):
            yield it
    finally:
        held.value -= 1
        hand.drop(sequence)
        catalogue.order_seconds.observe(time.perf_counter() - begun, service)
        catalogue.orders_settled.add(service, it.outcome)
