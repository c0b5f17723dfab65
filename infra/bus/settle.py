"""The three ends of a message: acknowledged, given back for later, or given up in a dead letter."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import Protocol

from nats import errors as nats_errors
from nats.aio.msg import Msg

from contracts.errors import ClocheError, Failure, Invalid
from contracts.streams import CRASH_LIMIT, DELIVERY_LIMIT
from infra import clock
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.observing import denials
from infra.observing.orders import taken

logger = logging.getLogger(__name__)

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
INTERNAL = 500

Handler = Callable[[str, bytes], Awaitable[None]]
"""Called with subject and payload."""


class DeadLetters(Protocol):
    """Makes the event that records a message that was given up. `Journal.dead_letter` is one."""

    def __call__(
        self, subject: str, raw: bytes, failure: Failure, /, *, delivered: int, sequence: int
    ) -> tuple[str, bytes, str]:
        """Returns subject, payload and id. The id must be the same each time for the same `sequence`."""
        ...


class GivenBack(Exception):
    """Raised by a handler: somebody else may take the message. It comes again, however often that happens."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(delay_s)
        self.delay_s = delay_s


class Outcome(StrEnum):
    ACKED = "acked"
    LATER = "later"
    REFUSED = "refused"
    """A dead letter, too, but of an order that was understood: whoever sent it can do something about it."""
    DEAD = "dead"


class Failures:
    """How often the handler gave each message back. A delivery that died with its process does not count."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, msg: Msg) -> int:
        number = msg.metadata.sequence.stream
        self._counts[number] = self._counts.get(number, 0) + 1
        return self._counts[number]

    def forget(self, msg: Msg) -> None:
        self._counts.pop(msg.metadata.sequence.stream, None)


async def settle(
    bus: Bus,
    msg: Msg,
    handle: Handler,
    dead_letter: DeadLetters,
    *,
    failures: Failures | None = None,
    ack_wait_s: float = 5,
    waits_s: float = 0.0,
) -> Outcome:
    """Handle one message of a durable consumer and tell the server how it ended.

    Handler returns → ack. Raises a retryable `ClocheError` → nak with a growing delay, `DELIVERY_LIMIT` times at most.
    Raises `GivenBack` → nak with its delay, which counts for nothing.
    Raises anything else → dead letter, then term. Delivered more than `CRASH_LIMIT` times → dead letter, without
    calling the handler: it takes its process with it. The server counts what was given back as well, so one that may
    be given back for `waits_s` is not given up before it is older than that, by the clocks of the server and of here.
    The server is told that work goes on while the handler runs. A cancelled handler gives its message back at once.
    An acknowledgement may be lost: handlers must stand being called twice.
    Raises `Unavailable` only if the bus was closed.
    """
    with taken(bus, msg) as order:
        outcome = await _settle(bus, msg, handle, dead_letter, failures or Failures(), ack_wait_s, waits_s)
        order.outcome = outcome.value
        return outcome


async def _settle(
    bus: Bus,
    msg: Msg,
    handle: Handler,
    dead_letter: DeadLetters,
    failures: Failures,
    ack_wait_s: float,
    waits_s: float,
) -> Outcome:
    async with working(msg, ack_wait_s / 2):
        if msg.metadata.num_delivered > CRASH_LIMIT and _age_s(msg) >= waits_s:
            failure = Invalid(f"given up after {CRASH_LIMIT} deliveries").failure()
            return await _give_up(bus, msg, dead_letter, failure, Outcome.DEAD)
        try:
            await handle(msg.subject, msg.data)
        except asyncio.CancelledError:
            await _tell(msg.nak())
            raise
        except GivenBack as given:
            await _tell(msg.nak(given.delay_s))
            return Outcome.LATER
        except ClocheError as error:
            count = failures.add(msg)
            if not error.retryable or count >= DELIVERY_LIMIT:
                failures.forget(msg)
                return await _give_up(bus, msg, dead_letter, error.failure(), _end_by(error))
            logger.info("%s: again later: %.300s", msg.subject, error.message)
            await _tell(msg.nak(delay_s(count)))
            return Outcome.LATER
        except Exception as error:
            logger.exception("%s: a bug in the handler", msg.subject)
            failure = Failure(code="INTERNAL", message=f"the handler failed: {type(error).__name__}")
            return await _give_up(bus, msg, dead_letter, failure, Outcome.DEAD)
        failures.forget(msg)
        await _tell(msg.ack())
        return Outcome.ACKED


def _age_s(msg: Msg) -> float:
    return (clock.now() - msg.metadata.timestamp).total_seconds()


def delay_s(delivered: int) -> float:
    return float(min(FIRST_DELAY_S * 2 ** (delivered - 1), LONGEST_DELAY_S))


def _end_by(error: ClocheError) -> Outcome:
    """An order that nobody can read is as bad as one that a service fails at: something is wrong with a program."""
    is_refusal = error.http_status < INTERNAL and not isinstance(error, Invalid)
    return Outcome.REFUSED if is_refusal else Outcome.DEAD


async def _give_up(bus: Bus, msg: Msg, dead_letter: DeadLetters, failure: Failure, end: Outcome) -> Outcome:
    """The letter is stored before the message is let go: a crash between the two writes the same letter again."""
    meta = msg.metadata
    try:
        subject, payload, letter_id = dead_letter(
            msg.subject, msg.data, failure, delivered=meta.num_delivered, sequence=meta.sequence.stream
        )
        await append(bus, subject, payload, letter_id)
    except Invalid:
        logger.exception("%s: its dead letter cannot be stored; the message stays in the queue", msg.subject)
        await _tell(msg.nak(LONGEST_DELAY_S))
        return Outcome.LATER
    logger.warning("%s: dead letter: %.300s", msg.subject, failure.message)
    await _tell(msg.term())
    denials.failed(bus.service, failure.code)
    return end


async def _tell(answer: Awaitable[None]) -> None:
    """If the connection is down the message comes again, and then is settled again."""
    with contextlib.suppress(nats_errors.Error):
        await answer


@contextlib.asynccontextmanager
async def working(msg: Msg, every_s: float) -> AsyncIterator[None]:
    """Tells the server that the message is in hand, so that it is not delivered again meanwhile."""

    async def keep_telling() -> None:
        while True:
            await asyncio.sleep(every_s)
            await _tell(msg.in_progress())

    telling = asyncio.create_task(keep_telling())
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
