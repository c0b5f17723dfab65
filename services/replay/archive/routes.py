"""The pieces of an import go to whoever has the ones before.

By a plain subscription: they are many and large, and a FastStream message is held until the garbage collector comes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from contracts import subjects
from contracts.errors import Unavailable
from infra.bus.broker import REPLY_PREFIXES
from infra.bus.connection import Bus
from services.replay.handlers import Historian


@asynccontextmanager
async def served_place(bus: Bus, historian: Historian, place: str) -> AsyncIterator[None]:
    """One piece after another. Only an inbox is answered, as `infra.bus.broker.answer` does."""

    async def reply(message: Any) -> None:
        answer = await historian.answer("import", message.data)
        if message.reply.startswith(REPLY_PREFIXES):
            with suppress(Unavailable):
                await bus.publish(message.reply, answer)

    subscription = await bus.subscribe(subjects.state_rpc(f"import.{place}"), reply)
    try:
        yield
    finally:
        if bus.is_connected:
            await subscription.unsubscribe()
