"""Several messages stored together or not at all: with durability `disk` that is one fsync instead of one for each."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from nats import errors as nats_errors

from contracts.errors import Conflict, Invalid, Unavailable
from infra import ids
from infra.blobs.errors import FULL, StoreFull
from infra.bus.connection import Bus
from infra.bus.errors import WRONG_LAST_SEQUENCE, ApiError
from infra.bus.publisher import EXPECTED_SEQUENCE, Ack, is_permanent, parse_ack

MAX_MESSAGES = 900
"""The server takes 1,000."""
MAX_BYTES = 4 * 1024 * 1024
SENT_AT_ONCE = 100
"""Before somebody else has a turn."""
COMMIT_TIMEOUT_S = 15.0

_ID = "Nats-Batch-Id"
_SEQUENCE = "Nats-Batch-Sequence"
_COMMIT = "Nats-Batch-Commit"
_FLEETING = frozenset({10176, 10210})
"""A part was lost on the way, or there were too many batches at once: it may be sent again."""


class Message(NamedTuple):
    subject: str
    payload: bytes
    new: bool = False
    """The batch is refused if the subject has a message already."""
    headers: Mapping[str, str] = MappingProxyType({})


async def append_batch(bus: Bus, messages: Sequence[Message]) -> Ack:
    """Store all of `messages`, in order, or none. Returns the last one's sequence. Sends once: nothing is repeated.

    Raises `Conflict` (a `new` subject is not new), `StoreFull`, `Unavailable` (it may or may not be stored), `Denied`,
    `Invalid`.
    """
    batch = ids.new_id("batch")
    try:
        for number, message in enumerate(messages[:-1], 1):
            await bus.client.publish(message.subject, message.payload, headers=_headers(batch, number, message))
            if number % SENT_AT_ONCE == 0:
                await asyncio.sleep(0)
    except nats_errors.Error as error:
        raise Unavailable(f"not connected to {bus.url}: {error}") from None
    last = messages[-1]
    headers = _headers(batch, len(messages), last) | {_COMMIT: "1"}
    reply = await bus.request(last.subject, last.payload, headers=headers, timeout=COMMIT_TIMEOUT_S)
    try:
        return parse_ack(reply.data)
    except ApiError as error:
        if error.number in WRONG_LAST_SEQUENCE:
            raise Conflict(f"{last.subject}: one of the batch is stored already") from error
        if error.number in FULL:
            raise StoreFull(f"no room in the store of contents: {error.message}") from error
        if is_permanent(error) and error.number not in _FLEETING:
            raise Invalid(f"{last.subject}: {error.message}", **error.details) from error
        raise Unavailable(f"{last.subject}: {error.message}") from error


def _headers(batch: str, number: int, message: Message) -> dict[str, str]:
    headers = {**message.headers, _ID: batch, _SEQUENCE: str(number)}
    return headers | {EXPECTED_SEQUENCE: "0"} if message.new else headers
