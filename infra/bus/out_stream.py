"""A stream of messages into the log with a window of unacknowledged ones: fast, in order, each stored once."""

import asyncio
import collections
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Self

from nats import errors as nats_errors

from contracts.errors import ClocheError, Invalid, Unavailable
from contracts.streams import LOG_STREAM
from infra.bus import message_ids, replicas
from infra.bus.connection import Bus
from infra.bus.errors import NOTHING_THERE, WRONG_LAST_SEQUENCE, ApiError, NobodyAnswers
from infra.bus.publisher import (
    ACK_TIMEOUT_S,
    DEDUPE_SAFE_S,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MSG_ID,
    Ack,
    Expect,
    find,
    is_newest,
    is_permanent,
    parse_ack,
)
from infra.bus.replies import NO_RESPONDERS, Reply
from infra.observing import catalogue
from infra.observing.figures import Number
from infra.observing.stored import line_of

WINDOW = 64
CLUSTER_WINDOW = 1
"""In a cluster the log's leader, or the way to it, may change while the connection stays. What was under way by the old
one is lost, what follows comes by the new one: so two messages of one writer must not be under way at once."""


class Right(NamedTuple):
    """Why the server may take what a writer says. One guard fits on a message.

    A server alone takes many at once under the same guard, `owner`. In a cluster a message waits for the one before it
    anyway, so it names that one, by `told`: whatever arrives late, or by a way that was cut off, is refused. The first
    has none before it, and names `owner`.
    """

    owner: Expect
    """Holds as long as nobody else may speak of the same things."""
    told: Expect
    """All that this writer alone tells, and how far the log has it."""


Renew = Callable[[], Awaitable[Right]]


class _Item:
    """One message from `send` until it is acknowledged."""

    __slots__ = (
        "ack",
        "attempt",
        "doubt",
        "first_sent",
        "msg_id",
        "payload",
        "refused",
        "sent_as",
        "stored",
        "subject",
    )

    def __init__(self, subject: str, payload: bytes, msg_id: str) -> None:
        self.subject = subject
        self.payload = payload
        self.msg_id = self.sent_as = msg_id
        self.ack: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        self.first_sent: float | None = None
        self.attempt = 0
        self.stored = False
        self.refused = False
        self.doubt: asyncio.Task[None] | None = None
        """Of a server that has the id already: whether it has this message."""


class OutStream:
    """Messages of one writer, stored in the order of `send`, each once, through restarts of the server.

    At most `window` are unacknowledged: then `send` waits, which is how a slow server slows the writer down. It is 1
    in a cluster.
    After any trouble everything unacknowledged is sent again in order under the same ids, the first one alone to see
    whether the server is well. A message that the server refuses for good fails the whole stream, since what follows
    must not overtake it.
    """

    def __init__(
        self, bus: Bus, *, window: int = WINDOW, right: Right | None = None, renew: Renew | None = None
    ) -> None:
        """The server refuses what `right` no longer holds for. `renew` is asked for another after each refusal and each
        loss of the connection, before anything is sent: what it raises fails the stream."""
        self._bus = bus
        self._right = right
        self._owner = right.owner.headers if right else {}
        self._renew = renew
        self._seems_empty = False
        """The server knows nothing of what the last refusal was about: see `is_newest`."""
        self._window = window
        self._clustered: bool | None = None
        self._told = self._stored_to = right.told.seq if right else 0
        self._unacked: collections.deque[_Item] = collections.deque()
        self._order = asyncio.Lock()
        self._moved = asyncio.Event()
        self._trouble = asyncio.Event()
        self._attempt = 1
        self._flowing = True
        self._failure: ClocheError | None = None
        self._last_seq = 0
        self._progress = 0.0
        self._mending: asyncio.Task[None] | None = None
        self._stop_watching = bus.on_lost(self._lost)
        self._used = catalogue.window_used.of(bus.service)
        self._bytes = catalogue.bytes_stored.of(bus.service)
        self._waits = catalogue.window_full.of(bus.service)
        self._waited = catalogue.window_full_seconds.of(bus.service)
        self._lines: dict[str, Number] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self.aclose()

    async def send(self, subject: str, payload: bytes, msg_id: str) -> asyncio.Future[Ack]:
        """Takes the message, waiting while the window is full. The future tells its acknowledgement.

        If cancelled, the message may or may not have been taken. Nobody has to await the future; failures also come out
        of the next `send` and of `flush`. Raises `Denied`, `Invalid` (the stream has failed), `Unavailable` (closed).
        """
        async with self._order:
            await self._start()
            if len(self._unacked) >= self._window:
                await self._wait_for_room()
            self._check()
            item = _Item(subject, self._bus.redactor.mask_event(payload), msg_id)
            item.ack.add_done_callback(_mark_seen)
            if not self._unacked:
                self._progress = asyncio.get_running_loop().time()
            self._unacked.append(item)
            self._used.value += 1
            if self._flowing:
                await self._put(item)
            return item.ack

    async def flush(self) -> int:
        """Waits until all is stored; returns the highest sequence so far. Raises what `send` raises."""
        while self._unacked:
            await self._wait_moved()
        self._check()
        return self._last_seq

    async def aclose(self) -> None:
        """Stops without waiting: what is unacknowledged may or may not be stored."""
        self._stop_watching()
        self._fail(Unavailable("the stream was closed"))
        self._used.value -= len(self._unacked)
        # What is answered from now on was subtracted already.
        self._used = Number()
        working = [task for task in (self._mending, *(item.doubt for item in self._unacked)) if task]
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)

    async def _start(self) -> None:
        if self._mending is None:
            self._mending = asyncio.create_task(self._mend())
        if self._clustered is None and self._flowing:
            try:
                await self._learn()
            except Unavailable:
                self._lost()

    async def _learn(self) -> None:
        self._clustered = await replicas.may_be_several(self._bus, LOG_STREAM)
        self._window = CLUSTER_WINDOW if self._clustered else self._window

    def _check(self) -> None:
        if self._failure:
            raise self._failure

    async def _wait_for_room(self) -> None:
        self._waits.value += 1
        begun = time.perf_counter()
        while len(self._unacked) >= self._window:
            await self._wait_moved()
        self._waited.value += time.perf_counter() - begun

    async def _wait_moved(self) -> None:
        self._check()
        self._moved.clear()
        await self._moved.wait()
        self._check()

    async def _put(self, item: _Item) -> None:
        item.attempt = self._attempt
        if item.first_sent is None:
            item.first_sent = asyncio.get_running_loop().time()

        def on_reply(reply: Reply) -> None:
            self._answered(item, reply)

        def on_failure(error: ClocheError) -> None:
            if isinstance(error, Invalid):
                self._fail(error)
            else:
                self._lost()

        headers = {MSG_ID: item.sent_as, **self._guard()}
        try:
            await self._bus.replies.send(item.subject, item.payload, on_reply, on_failure, headers=headers, once=True)
        except (nats_errors.MaxPayloadError, nats_errors.BadSubjectError, nats_errors.BadHeaderError) as error:
            self._fail(Invalid(f"{item.subject[:200]!r}: {error}"))
        except (nats_errors.Error, OSError):
            self._lost()

    def _guard(self) -> dict[str, str]:
        if self._right is not None and self._clustered and self._told:
            return self._right.told._replace(seq=self._told).headers
        return self._owner

    def _answered(self, item: _Item, reply: Reply) -> None:
        try:
            if reply.status == NO_RESPONDERS:
                raise NobodyAnswers(f"no stream takes {item.subject}")
            ack = parse_ack(reply.data)
            if not ack.duplicate:
                self._acked(item, ack)
            elif not item.stored and item.doubt is None:
                item.doubt = asyncio.create_task(self._look_up(item, ack))
        except ApiError as error:
            item.refused = error.number in WRONG_LAST_SEQUENCE and self._renew is not None
            self._seems_empty = error.message.endswith(NOTHING_THERE)
            if is_permanent(error) and not item.refused:
                self._fail(Invalid(f"{item.subject}: {error.message}", **error.details))
            else:
                self._lost()
        except Unavailable:
            self._lost()

    async def _look_up(self, item: _Item, ack: Ack) -> None:
        try:
            if await message_ids.holds(self._bus, ack.seq, item.subject, item.msg_id):
                self._acked(item, ack)
                return
            item.sent_as, item.refused = message_ids.another(item.msg_id), True
        except (Unavailable, ApiError):
            # Then it is sent again, and the server says so again.
            pass
        finally:
            item.doubt = None
        self._lost()

    def _acked(self, item: _Item, ack: Ack) -> None:
        self._last_seq = max(self._last_seq, ack.seq)
        self._progress = asyncio.get_running_loop().time()
        item.stored = True
        if not ack.duplicate:
            self._count(item)
        if not item.ack.done():
            item.ack.set_result(ack)
        while self._unacked and self._unacked[0].stored:
            self._told = self._stored_to = self._unacked.popleft().ack.result().seq
            self._used.value -= 1
        self._moved.set()

    def _count(self, item: _Item) -> None:
        line = self._lines.get(item.subject)
        if line is None:
            line = self._lines[item.subject] = line_of(item.subject)
        line.value += 1
        self._bytes.value += len(item.payload)

    def _lost(self) -> None:
        self._flowing = False
        self._trouble.set()

    def _fail(self, error: ClocheError) -> None:
        self._failure = self._failure or error
        self._flowing = False
        for item in self._unacked:
            if not item.ack.done():
                item.ack.set_exception(self._failure)
        self._moved.set()

    async def _mend(self) -> None:
        """Lives as long as the stream: sleeps until there is trouble, then sends again until there is none."""
        pause = FIRST_PAUSE_S
        while self._failure is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ACK_TIMEOUT_S):
                    await self._trouble.wait()
            if not self._trouble.is_set() and not self._stalled():
                continue
            try:
                await self._send_again()
                pause = FIRST_PAUSE_S
            except (Unavailable, ApiError):
                self._lost()
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
            except ClocheError as error:
                self._fail(error)

    def _stalled(self) -> bool:
        now = asyncio.get_running_loop().time()
        return bool(self._unacked) and now - self._progress > ACK_TIMEOUT_S and self._unacked[0].first_sent is not None

    async def _send_again(self) -> None:
        self._flowing = False
        await self._bus.wait_connected()
        self._trouble.clear()
        await self._learn()
        self._attempt += 1
        if self._renew is not None:
            self._right = await self._renew()
            owner, self._told = self._right.owner, self._right.told.seq
            if self._seems_empty and await is_newest(self._bus, owner):
                owner = owner._replace(seq=0)
            self._owner = owner.headers
        await self._forget_stored()
        if self._unacked:
            await self._probe(self._unacked[0])
        while waiting := [item for item in self._unacked if item.attempt != self._attempt]:
            catalogue.publish_retries.add(self._bus.service, amount=len(waiting))
            for item in waiting:
                await (self._probe(item) if self._clustered else self._put(item))
                if self._trouble.is_set():
                    raise Unavailable("trouble again")
        # Nothing may come between seeing that none is left and letting `send` go on by itself.
        self._flowing = not self._trouble.is_set()

    async def _probe(self, item: _Item) -> None:
        await self._put(item)
        trouble = asyncio.ensure_future(self._trouble.wait())
        either: list[asyncio.Future[Any]] = [item.ack, trouble]
        await asyncio.wait(either, timeout=ACK_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        trouble.cancel()
        if not item.stored:
            raise Unavailable("the server does not acknowledge")

    async def _forget_stored(self) -> None:
        """What is older than the server's memory of ids is looked up in the log, lest it be stored twice. So is what
        was refused: a server may ask for the guard before it knows the id again."""
        now = asyncio.get_running_loop().time()
        for item in list(self._unacked):
            is_old = item.first_sent is not None and now - item.first_sent >= DEDUPE_SAFE_S
            if not is_old and not item.refused:
                continue
            item.refused = False
            seq = await find(self._bus, item.subject, item.msg_id, after=self._stored_to)
            if seq is not None:
                self._acked(item, Ack(seq, True))


def _mark_seen(ack: asyncio.Future[Ack]) -> None:
    """An acknowledgement that nobody awaits is no unhandled error: it also comes out of `flush`."""
    if not ack.cancelled():
        ack.exception()
