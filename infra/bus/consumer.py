"""The loop of a service over its durable consumer."""

import asyncio
from collections.abc import Callable

from nats.aio.msg import Msg

from contracts import subjects
from contracts.streams import ConsumerSpec
from infra.bus.connection import Bus
from infra.bus.puller import Puller
from infra.bus.settle import DeadLetters, Handler, Outcome, settle, working

__all__ = ["DeadLetters", "Handler", "Outcome", "run", "settle"]


async def run(
    bus: Bus,
    spec: ConsumerSpec,
    handle: Handler,
    *,
    dead_letter: DeadLetters,
    concurrency: int = 1,
    key: Callable[[str], str] = subjects.sandbox_of,
) -> None:
    """Handle messages until cancelled. `handle(subject, payload)` ends as `settle` says.

    Up to `concurrency` at a time; those with the same `key(subject)` (the sandbox) one after another, in the order of
    the queue. One that is given back for later comes again after those that follow it.
    Survives restarts of the server; a missing consumer is complained about once and waited for.
    On cancellation, running handlers are cancelled and their messages are delivered again.
    """
    lanes: dict[str, _Lane] = {}
    free = asyncio.Semaphore(concurrency)
    puller = Puller(bus, spec.stream, spec.durable)

    async def work(msg: Msg, lane: _Lane) -> None:
        try:
            async with working(msg, spec.ack_wait_s / 2), lane.lock:
                await settle(bus, msg, handle, dead_letter, ack_wait_s=spec.ack_wait_s)
        finally:
            lane.waiting -= 1
            if not lane.waiting:
                lanes.pop(lane.name, None)
            free.release()

    async with puller.open(), asyncio.TaskGroup() as tasks:
        while True:
            await free.acquire()
            msg = await puller.next()
            lane = lanes.setdefault(key(msg.subject), _Lane(key(msg.subject)))
            lane.waiting += 1
            tasks.create_task(work(msg, lane))


class _Lane:
    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = asyncio.Lock()
        self.waiting = 0
