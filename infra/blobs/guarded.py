"""One message that is stored only if nothing came in between."""

from contracts.errors import Conflict, Invalid, Unavailable
from infra.blobs.errors import FULL, StoreFull
from infra.bus.connection import Bus
from infra.bus.errors import WRONG_LAST_SEQUENCE, ApiError
from infra.bus.publisher import ACK_TIMEOUT_S, EXPECTED_SEQUENCE, is_permanent, parse_ack


async def append_after(bus: Bus, subject: str, payload: bytes, expected: int, *, instead: bool = False) -> int:
    """Store it if `expected` is the last sequence of its subject (0 = none). Sends once. Returns its sequence.

    `instead`: the subject's earlier messages are removed in the same step.
    Raises `Conflict` (it is not), `StoreFull`, `Unavailable` (it may or may not be stored), `Denied`, `Invalid`.
    """
    headers = {EXPECTED_SEQUENCE: str(expected)} | ({"Nats-Rollup": "sub"} if instead else {})
    reply = await bus.request(subject, payload, headers=headers, timeout=ACK_TIMEOUT_S)
    try:
        return parse_ack(reply.data).seq
    except ApiError as error:
        if error.number in WRONG_LAST_SEQUENCE:
            raise Conflict(f"{subject} has moved past sequence {expected}") from error
        if error.number in FULL:
            raise StoreFull(f"no room in the store of contents: {error.message}") from error
        if is_permanent(error):
            raise Invalid(f"{subject}: {error.message}", **error.details) from error
        raise Unavailable(f"{subject}: {error.message}") from error
