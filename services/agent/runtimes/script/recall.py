"""What was told and done before, by an earlier life of this service or in an earlier attempt: the log knows."""

import asyncio
import contextlib

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events.tool import ToolInvoked, ToolReturned
from contracts.message import Fact
from infra.bus import reader
from services.agent.record import digest
from services.agent.stage import Stage

UNDER_WAY_S = 10.0


class Unclear(Exception):
    """It was begun, and nobody knows whether it was done."""


async def refresh(stage: Stage) -> None:
    """What this very life has told in an earlier attempt is passed over like what an earlier life has."""
    record = stage._record  # noqa: SLF001
    filters = subjects.events_of(record.sandbox, scope=stage.run)
    async for entry in reader.read(stage._bus, filters, record.first_sequence, follow=False):  # noqa: SLF001
        with contextlib.suppress(Invalid):
            record.told.add(codec.decode_head(entry.data).id)


async def begun(stage: Stage, key: str, call: str) -> bool:
    """Whether something was done for a call already: a command of that key started, a file operation of that token."""
    start = stage._record.first_sequence  # noqa: SLF001
    command = subjects.events_of(stage.state.sandbox, scope=f"e-{digest(stage.run, key)}")
    if await reader.first(stage._bus, *command, start=start) is not None:  # noqa: SLF001
        return True
    tools = subjects.events_of(stage.state.sandbox, family="tool")
    async for entry in reader.read(stage._bus, tools, start, follow=False):  # noqa: SLF001
        if _of(call, entry.data) is not None:
            return True
    return False


async def returned(stage: Stage, call: str) -> ToolReturned | None:
    """How the operation ended that was asked for under this token; None where it was not begun.

    One that is under way is waited for. Raises `Unclear`.
    """
    invoked, sequence = False, stage._record.first_sequence  # noqa: SLF001
    filters = subjects.events_of(stage.state.sandbox, family="tool")
    async for entry in reader.read(stage._bus, filters, sequence, follow=False):  # noqa: SLF001
        fact, sequence = _of(call, entry.data), entry.seq
        if isinstance(fact, ToolReturned):
            return fact
        invoked = invoked or isinstance(fact, ToolInvoked)
    if not invoked:
        return None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(UNDER_WAY_S):
            async for entry in reader.read(stage._bus, filters, sequence, follow=True):  # noqa: SLF001
                if isinstance(fact := _of(call, entry.data), ToolReturned):
                    return fact
    raise Unclear


def _of(call: str, raw: bytes) -> Fact | None:
    try:
        head = codec.decode_head(raw)
        return codec.decode_fact(head) if head.correlationid == call else None
    except Invalid:
        return None
