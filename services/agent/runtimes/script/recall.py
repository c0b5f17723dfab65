"""What was told and done before, by an earlier life of this service or in an earlier attempt: the log knows."""

import asyncio
import contextlib

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events.tool import ToolInvoked, ToolReturned
from contracts.message import Fact
from infra.bus import reader
from services.agent.names import command_name
from services.agent.stage import Stage

UNDER_WAY_S = 10.0


class Unclear(Exception):
    """It was begun, and nobody knows whether it was done."""


async def begun(stage: Stage, key: str, call: str) -> bool:
    """Whether something was done for a call already: a command of that key started, a file operation of that token."""
    start = stage.first_sequence
    command = subjects.events_of(stage.state.sandbox, scope=command_name(stage.run, key))
    if await reader.patiently(stage.bus, lambda bus: reader.first(bus, *command, start=start)) is not None:
        return True
    tools = subjects.events_of(stage.state.sandbox, family="tool")
    async for entry in reader.read(stage.bus, tools, start, follow=False):
        if _of(call, entry.data) is not None:
            return True
    return False


async def returned(stage: Stage, call: str) -> ToolReturned | None:
    """How the operation ended that was asked for under this token; None where it was not begun.

    One that is under way is waited for. Raises `Unclear`.
    """
    invoked, sequence = False, stage.first_sequence
    filters = subjects.events_of(stage.state.sandbox, family="tool")
    async for entry in reader.read(stage.bus, filters, sequence, follow=False):
        fact, sequence = _of(call, entry.data), entry.seq
        if isinstance(fact, ToolReturned):
            return fact
        invoked = invoked or isinstance(fact, ToolInvoked)
    if not invoked:
        return None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(UNDER_WAY_S):
            async for entry in reader.read(stage.bus, filters, sequence, follow=True):
                if isinstance(fact := _of(call, entry.data), ToolReturned):
                    return fact
    raise Unclear


def _of(call: str, raw: bytes) -> Fact | None:
    try:
        head = codec.decode_head(raw)
        return codec.decode_fact(head) if head.correlationid == call else None
    except Invalid:
        return None
