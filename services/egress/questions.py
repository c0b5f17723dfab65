"""What one sandbox asks people for: each question is on the log before anybody waits, each answer before it counts."""

import asyncio
import contextlib
import datetime
import logging

from contracts import approvals as fold
from contracts import codec, subjects
from contracts.approvals import Approvals, Ask
from contracts.errors import ClocheError
from contracts.events.network import NetworkApproved, NetworkAsked, NetworkRejected
from contracts.message import CommandHead, Fact
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.ids import new_id
from infra.journal import Journal
from services.egress.answering import Granted, Order, answer

logger = logging.getLogger(__name__)

MOST_PENDING = 32
GRACE_S = 2.0
"""After a start, nothing expires at once: an answer that was given in time may still be on its way here."""
MOST_GRANTED = 10_000
KINDS = ("asked", "approved", "rejected")


class Questions:
    def __init__(self, bus: Bus, journal: Journal, sandbox: str) -> None:
        self._bus = bus
        self._journal = journal
        self._sandbox = sandbox
        self._turn = asyncio.Lock()
        self._loaded: float | None = None
        self._seen = clock.Moments()
        self._finished = False
        self._moved = asyncio.Event()
        self._asking: dict[tuple[str, int], asyncio.Task[Ask | None]] = {}
        self._granted: dict[str, Granted] = {}
        """Every approval that ever was, the newest: it can be taken back long after it has run out."""
        self.approvals = Approvals()
        """As the log has them, once `load` has returned."""

    def finish(self) -> None:
        """`keep_time` returns."""
        self._finished = True
        self._move()

    async def aclose(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def load(self) -> None:
        """Reads the log, the first time."""
        if self._loaded is not None:
            return
        async with self._turn:
            if self._loaded is None:
                self.approvals = await self._read()
                self._loaded = clock.steady()
                self._see()
                self._move()

    async def ask(self, host: str, port: int, method: str, timeout: datetime.timedelta) -> Ask | None:
        """The question that waits for this host, asked now if it is not yet: on the log when this returns.

        None where too many wait already. If cancelled, it is asked all the same.
        """
        asking = self._asking.get((host, port))
        if asking is None:
            # Those that are on their way to the log count as well: it may take long, and whoever asked may be gone.
            waiting = {*self._asking, *((each.host, each.port) for each in self.approvals.pending)}
            if len(waiting) >= MOST_PENDING and (host, port) not in waiting:
                return None
            asking = asyncio.create_task(self._ask(host, port, method, timeout))
            self._asking[host, port] = asking
            asking.add_done_callback(lambda _: self._asking.pop((host, port)))
        return await asyncio.shield(asking)

    async def _ask(self, host: str, port: int, method: str, timeout: datetime.timedelta) -> Ask | None:
        async with self._turn:
            now = clock.now()
            waiting = self._pending_for(host, port)
            if waiting is not None or len(self.approvals.pending) >= MOST_PENDING:
                return waiting
            asked = NetworkAsked(approval=new_id("ask"), host=host, port=port, method=method, expires_at=now + timeout)
            await self._tell(asked, f"{asked.approval}.asked")
            return self.approvals.asked(asked.approval)

    async def answer(self, head: CommandHead, order: Order) -> None:
        """Raises `Invalid` for what cannot be answered so."""
        await self.load()
        async with self._turn:
            now = clock.now()
            asked = self.approvals.asked(order.approval)
            at = now if asked is None else self._as_asked(asked, min(head.time or now, now))
            told = answer(
                self.approvals,
                order,
                self._granted.get(order.approval),
                command=head.id,
                by=head.source,
                at=at,
                now=now,
            )
            if told is not None:
                await self._tell(told, f"{order.approval}.{head.id}", head.id)

    async def keep_time(self) -> None:
        """Until `finish`: a question that nobody answered in time is rejected."""
        await self.load()
        while not self._finished:
            moved = self.moved()
            due = self._next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else due - clock.steady()):
                    await moved.wait()
            await self._expire()

    def left_s(self, ask: Ask) -> float:
        """Until it expires: so much as was left when it was first seen here, less what has passed since."""
        return self._due(ask) - clock.steady()

    def _due(self, ask: Ask) -> float:
        return self._seen.steady_at(ask.approval, ask.asked_at) + (ask.expires_at - ask.asked_at).total_seconds()

    def _as_asked(self, ask: Ask, moment: datetime.datetime) -> datetime.datetime:
        """A moment by a clock that went on evenly since it was asked."""
        passed_s = clock.steady_at(moment) - self._seen.steady_at(ask.approval, ask.asked_at)
        # Whoever answers says when: it may be any time at all.
        return ask.asked_at + datetime.timedelta(seconds=max(passed_s, 0.0))

    def _see(self) -> None:
        for ask in self.approvals.pending:
            self._due(ask)

    def _pending_for(self, host: str, port: int) -> Ask | None:
        waiting = (each for each in self.approvals.pending if (each.host, each.port) == (host, port))
        return next((each for each in waiting if self.left_s(each) > 0), None)

    def moved(self) -> asyncio.Event:
        """Set once anything is asked or answered after this call."""
        return self._moved

    def _move(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _next_due(self) -> float | None:
        assert self._loaded is not None
        earliest = min((self._due(ask) for ask in self.approvals.pending), default=None)
        return None if earliest is None else max(earliest, self._loaded + GRACE_S)

    async def _expire(self) -> None:
        async with self._turn:
            due = self._next_due()
            if due is None or clock.steady() < due:
                return
            for ask in self.approvals.pending:
                if self.left_s(ask) <= 0:
                    expired = NetworkRejected(
                        approval=ask.approval, host=ask.host, port=ask.port, reason="nobody answered", expired=True
                    )
                    await self._tell(expired, f"{ask.approval}.expired")

    async def _tell(self, fact: Fact, name: str, command: str | None = None) -> None:
        now = clock.now()
        written = self._journal.write(self._sandbox, fact, id=f"{self._sandbox}.{name}", command=command, time=now)
        await self._journal.append(written)
        self.approvals = fold.apply(self.approvals, fact, now, command)
        self._note(fact)
        self._see()
        self._move()

    def _note(self, fact: Fact) -> None:
        if isinstance(fact, NetworkApproved | NetworkRejected):
            self._seen.forget(fact.approval)
        if isinstance(fact, NetworkApproved):
            self._granted[fact.approval] = Granted(fact.host, fact.port)
            if len(self._granted) > MOST_GRANTED:
                self._granted.pop(next(iter(self._granted)))

    async def _read(self) -> Approvals:
        found = Approvals()
        filters = [subjects.event(self._sandbox, f"network.{kind}") for kind in KINDS]
        async for entry in reader.read(self._bus, filters, 1, follow=False):
            try:
                head = codec.decode_head(entry.data)
                fact = codec.decode_fact(head)
            except ClocheError as error:
                logger.error("event %d cannot be read: %s", entry.seq, error.message)  # noqa: TRY400
                continue
            if fact is not None:
                found = fold.apply(found, fact, head.time, head.correlationid)
                self._note(fact)
        return found
