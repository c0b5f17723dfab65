"""The loop of a service over its durable consumer."""

import asyncio
import collections
import contextlib
from collections.abc import Callable

from nats import errors as nats_errors
from nats.aio.msg import Msg

from contracts import subjects
from contracts.errors import ClocheError
from contracts.streams import ConsumerSpec
from infra.bus.connection import Bus
from infra.bus.puller import PULL_EXPIRES_S, Puller
from infra.bus.settle import DeadLetters, Failures, Handler, Outcome, settle
from infra.observing import catalogue
from infra.observing.queues import watch_queue

__all__ = ["DeadLetters", "Handler", "Outcome", "run", "settle"]

LANE_LENGTH = 100
"""Messages of one key that wait; more are given back for later, so that one key cannot fill the whole house."""
LONG_LANE = 10_000
LATER_S = 1.0
SLACK_S = 0.1
SHORT_PULL_S = 0.05


async def run(
    bus: Bus,
    spec: ConsumerSpec,
    handle: Handler,
    *,
    dead_letter: DeadLetters,
    concurrency: int = 1,
    key: Callable[[str], str] = subjects.sandbox_of,
    in_order: bool = False,
    hold_back_s: Callable[[], float] = lambda: 0.0,
    waits_s: float = 0.0,
) -> None:
    """Handle messages until cancelled. `handle(subject, payload)` ends as `settle` says.

    Up to `concurrency` keys at a time; messages with the same `key(subject)` (the sandbox) one after another, in the
    order of the queue. One that is given back for later comes again after those that follow it.
    `in_order`: also what an earlier process had in hand when it died comes before what was sent later, so after such a
    death nothing is taken for `ack_wait_s`; and however much waits for one key, nothing is given back for later.
    `hold_back_s`: asked before each message; others who share the consumer are given so long to take it first.
    `waits_s`: so long a message may be given back again and again, as `settle` says.
    Survives restarts of the server; a missing consumer is complained about once and waited for.
    On cancellation, running handlers are cancelled and their messages are delivered again.
    """
    lanes = _Lanes(bus, spec, handle, dead_letter, concurrency, LONG_LANE if in_order else LANE_LENGTH, waits_s)
    puller = Puller(bus, spec.stream, spec.durable)
    if in_order and await _is_in_hand(bus, spec):
        # The server gives again what was given before, ahead of what is new.
        await asyncio.sleep(spec.ack_wait_s + SLACK_S)
    async with puller.open(), asyncio.TaskGroup() as tasks:
        tasks.create_task(lanes.keep_telling())
        tasks.create_task(watch_queue(bus, spec))
        while True:
            await lanes.room()
            msg = await _next(puller, hold_back_s)
            await lanes.put(key(msg.subject), msg, tasks)


async def _next(puller: Puller, hold_back_s: Callable[[], float]) -> Msg:
    while True:
        pause_s = hold_back_s()
        await asyncio.sleep(pause_s)
        # Who holds back must not leave a request behind that is served before those of the others.
        msg = await puller.next_within(SHORT_PULL_S if pause_s else PULL_EXPIRES_S)
        if msg is not None:
            return msg


async def _is_in_hand(bus: Bus, spec: ConsumerSpec) -> bool:
    """Whether something was given to an earlier process and not settled. No where the server does not say."""
    try:
        info = await bus.api(f"CONSUMER.INFO.{spec.stream}.{spec.durable}")
    except ClocheError:
        return False
    return int(info.get("num_ack_pending", 0)) > 0


class _Lanes:
    def __init__(
        self,
        bus: Bus,
        spec: ConsumerSpec,
        handle: Handler,
        dead_letter: DeadLetters,
        concurrency: int,
        length: int,
        waits_s: float,
    ) -> None:
        self._waits_s = waits_s
        self._length = length
        self._bus = bus
        self._spec = spec
        self._handle = handle
        self._dead_letter = dead_letter
        self._failures = Failures()
        self._slots = asyncio.Semaphore(concurrency)
        self._lanes: dict[str, collections.deque[Msg]] = {}

    async def room(self) -> None:
        """A free slot exists, so that what is pulled can be begun: what nobody here can begin stays in the queue."""
        async with self._slots:
            return

    async def put(self, name: str, msg: Msg, tasks: asyncio.TaskGroup) -> None:
        lane = self._lanes.get(name)
        if lane is None:
            self._lanes[name] = collections.deque([msg])
            tasks.create_task(self._work(name))
        elif len(lane) < self._length:
            lane.append(msg)
        else:
            catalogue.orders_settled.add(self._bus.service, Outcome.LATER.value)
            with contextlib.suppress(nats_errors.Error):
                await msg.nak(LATER_S)

    async def _work(self, name: str) -> None:
        lane = self._lanes[name]
        try:
            while lane:
                async with self._slots:
                    await settle(
                        self._bus,
                        lane[0],
                        self._handle,
                        self._dead_letter,
                        failures=self._failures,
                        ack_wait_s=self._spec.ack_wait_s,
                        waits_s=self._waits_s,
                    )
                lane.popleft()
        finally:
            del self._lanes[name]

    async def keep_telling(self) -> None:
        """Messages that wait in a lane are in hand, and not to be delivered again meanwhile."""
        while True:
            await asyncio.sleep(self._spec.ack_wait_s / 4)
            for msg in [msg for lane in self._lanes.values() for msg in list(lane)[1:]]:
                with contextlib.suppress(nats_errors.Error):
                    await msg.in_progress()
