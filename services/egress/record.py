"""What left a sandbox and what was refused, on its way to the log."""

import asyncio
import collections
import contextlib
import logging
import time

from contracts import codec, subjects
from contracts.errors import ClocheError, Invalid
from contracts.events.network import NetworkAllowed, NetworkBatch, NetworkDenied
from contracts.message import Fact
from contracts.registry import tag_of
from infra import clock
from infra.bus.connection import Bus
from infra.bus.errors import Denied
from infra.bus.publisher import find
from infra.journal import Journal, Written
from infra.observing import catalogue
from services.egress.denials import Denials
from services.egress.ledger import Ledger, Name, Told

logger = logging.getLogger(__name__)

WINDOW_S = 0.05
"""What ends within it goes along in one event."""
MOST_UNTOLD = 2000
"""Then nothing new is let through until the log has some of it."""
BATCH_BYTES = 256 * 1024
PAUSE_S = 1.0


class Pen:
    """Publishes what a ledger tells, each event under the id that it has for ever."""

    def __init__(self, bus: Bus, journal: Journal) -> None:
        self._bus = bus
        self._journal = journal

    async def publish(self, name: Name, told: Told) -> None:
        """However long it takes. An event that cannot ever be stored is complained about and passed over.

        Raises `Denied` where this user may not write: then nothing is told, and soon nothing passes.
        """
        if told.requests:
            fact = fact_of(told)
            await self._append(self._journal.write(name.sandbox, fact, id=_id(name, told), time=told.at))

    async def publish_denial(self, name: Name, number: int, denied: NetworkDenied) -> None:
        written = self._journal.write(name.sandbox, denied, id=f"{name.sandbox}.{name.life}.d{number}")
        await self._append(written)

    async def has(self, name: Name, told: Told) -> bool:
        """Whether the log has it, also after the server has forgotten the id. Raises `Unavailable`."""
        subject = subjects.event(name.sandbox, tag_of(fact_of(told)))
        wanted = f"{self._journal.service}.{_id(name, told)}"
        return await find(self._bus, subject, wanted, since=told.at) is not None

    async def _append(self, written: Written) -> None:
        try:
            await self._journal.append(written)
        except Denied:
            raise
        except Invalid as error:
            logger.error("a request cannot be told: %s", error.message)  # noqa: TRY400


def fact_of(told: Told) -> Fact:
    return told.requests[0] if len(told.requests) == 1 else NetworkBatch(requests=told.requests)


def _id(name: Name, told: Told) -> str:
    return f"{name.sandbox}.{name.life}.{told.number}"


class Record:
    """Of one sandbox. Run `run` in a task; nothing is held without a bound."""

    def __init__(self, pen: Pen, ledger: Ledger) -> None:
        self._pen = pen
        self._ledger = ledger
        self._ended: collections.deque[tuple[int | None, NetworkAllowed]] = collections.deque()
        self._denials = Denials()
        self._refusals: collections.deque[NetworkDenied] = collections.deque()
        """On their way to the log."""
        self._denied = 0
        self._stirred = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._finishing = False

    def begin(self, request: NetworkAllowed) -> int:
        """Before the first byte leaves. Raises OSError: then nothing may."""
        return self._ledger.intend(request)

    def end(self, number: int | None, request: NetworkAllowed) -> None:
        self._ended.append((number, request))
        catalogue.egress_requests.add("allowed")
        catalogue.egress_bytes.add("sent", amount=request.sent_bytes)
        catalogue.egress_bytes.add("received", amount=request.received_bytes)
        if len(self._ended) >= MOST_UNTOLD:
            self._room.clear()
        self._stirred.set()

    def drop(self, number: int) -> None:
        """It was begun, and nothing left."""
        try:
            self._ledger.drop(number)
        except OSError as error:
            # At worst it is told as begun, once this process has died.
            logger.warning("the ledger of requests: %s", error)
        self._stirred.set()

    def deny(self, denied: NetworkDenied, *, kind: str | None = None) -> None:
        self._denials.add(denied, time.monotonic(), kind=kind)
        catalogue.egress_requests.add("denied")
        self._stirred.set()

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    async def wait_for_room(self, timeout_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._room.wait()
        return self.has_room

    def finish(self) -> None:
        """`run` returns once everything that was let through has ended and is told."""
        self._finishing = True
        self._stirred.set()

    async def run(self) -> None:
        while not (self._finishing and self._is_empty()):
            await self._until_stirred()
            await asyncio.sleep(WINDOW_S)
            try:
                await self.tell(everything=self._finishing)
            except (OSError, ClocheError) as error:
                logger.warning("requests cannot be told for now: %s", error)
                self._stirred.set()
                await asyncio.sleep(PAUSE_S)
        self._ledger.close()

    async def tell(self, *, everything: bool = False) -> None:
        """Publishes what has ended. What is interrupted is published again, under the same id."""
        self._stirred.clear()
        while self._ledger.last_told is not None or self._ended:
            told = self._ledger.last_told or self._next_batch()
            await self._pen.publish(self._ledger.name, told)
            self._ledger.confirm()
        self._refusals.extend(self._denials.take(time.monotonic(), everything=everything))
        while self._refusals:
            await self._pen.publish_denial(self._ledger.name, self._denied + 1, self._refusals[0])
            self._refusals.popleft()
            self._denied += 1

    def close(self) -> None:
        """What has not been told by now is told by the next life."""
        try:
            for number, request in self._ended:
                self._ledger.end(number, request)
        except OSError as error:
            # At worst it is told as begun.
            logger.warning("the ledger of requests: %s", error)
        self._ledger.close()

    def _next_batch(self) -> Told:
        size, count = 0, 0
        for _, request in self._ended:
            size += len(codec.encode(request))
            if size > BATCH_BYTES and count:
                break
            count += 1
        batch = [self._ended[index] for index in range(count)]
        told = self._ledger.tell(clock.now(), batch)
        for _ in range(count):
            self._ended.popleft()
        if len(self._ended) < MOST_UNTOLD:
            self._room.set()
        return told

    def _is_empty(self) -> bool:
        return not (self._ledger.open or self._ledger.last_told or self._ended or self._refusals or self._denials.due())

    async def _until_stirred(self) -> None:
        due = self._denials.due()
        wait_s = None if due is None else max(due - time.monotonic(), 0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._stirred.wait()
