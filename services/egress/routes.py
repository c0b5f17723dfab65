"""What egress answers, by FastStream: human rates."""

import msgspec

from contracts import codec, subjects
from contracts.egress import REQUESTS, Attach
from contracts.errors import ClocheError, Invalid
from contracts.queries import Reply
from contracts.streams import egress_consumer
from infra.bus.broker import BusBroker, answer, take
from infra.bus.settle import Handler
from infra.journal import Journal
from services.egress.loop import Attachments

AT_ONCE = 200
"""An answer waits for the sandbox that it is about, and must not hold up the others."""
WORKERS = 4


class Desk:
    def __init__(self, attachments: Attachments) -> None:
        self._attachments = attachments

    async def answer(self, subject: str, raw: bytes) -> bytes:
        """Never raises for a bad request: the failure is the answer."""
        try:
            address = subjects.parse_rpc("egress", subject)
            if address.verb not in REQUESTS:
                raise Invalid(f"unknown request {address.verb!r}: one of {', '.join(REQUESTS)}")
            request: Attach = codec.decode(raw or b"{}", Attach)
            attached = await self._attachments.attach(address.sandbox, request)
            return codec.encode(Reply(result=msgspec.Raw(codec.encode(attached))))
        except ClocheError as error:
            return codec.encode(Reply(failure=error.failure()))


def add_routes(broker: BusBroker, desk: Desk, handle: Handler, journal: Journal) -> None:
    answer(broker, subjects.rpc_filter("egress", journal.node), desk.answer, queue="egress", concurrency=AT_ONCE)
    for _ in range(WORKERS):
        take(broker, egress_consumer(journal.node), handle, journal.dead_letter)
