"""What egress answers, by FastStream: human rates."""

from contracts import subjects
from contracts.egress import Attach
from contracts.streams import egress_consumer
from infra.bus.broker import BusBroker, answer, take
from infra.bus.desk import Desk
from infra.bus.settle import Handler
from infra.journal import Journal
from services.egress.loop import Attachments

AT_ONCE = 200
"""An answer waits for the sandbox that it is about, and must not hold up the others."""
WORKERS = 4


def add_routes(broker: BusBroker, attachments: Attachments, handle: Handler, journal: Journal) -> None:
    desk = Desk("egress", "attach", Attach, attachments.attach)
    answer(broker, subjects.rpc_filter("egress", journal.node), desk.answer, queue="egress", concurrency=AT_ONCE)
    for _ in range(WORKERS):
        take(broker, egress_consumer(journal.node), handle, journal.dead_letter)
