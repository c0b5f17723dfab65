"""Reading a stream as nats-py does it: an ordered consumer with a callback, its fastest way."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from contracts.streams import LOG_STREAM
from infra.bus.connection import Bus

ORDERED = "nats-py, ordered consumer"


async def consumed(bus: Bus, filter_: str, count: int, look: Callable[[bytes], object] | None = None) -> float:
    """Seconds until `count` messages have come; `look` is called with the payload of each."""
    came = 0
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def on_message(message: Any) -> None:
        nonlocal came
        if look is not None:
            look(message.data)
        came += 1
        if came == count:
            done.set_result(None)

    began = time.perf_counter()
    subscription = await bus.client.jetstream().subscribe(
        filter_, stream=LOG_STREAM, ordered_consumer=True, cb=on_message
    )
    await done
    took = time.perf_counter() - began
    await subscription.unsubscribe()
    return took
