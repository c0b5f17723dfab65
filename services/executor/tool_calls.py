"""The two events of every file operation: invoked, and returned."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from contracts.errors import ClocheError, Failure, Unavailable
from contracts.events.tool import ToolInvoked, ToolReturned
from contracts.files import FileRequest
from contracts.message import Fact, JsonObject
from infra.ids import new_id
from infra.journal import Journal
from services.executor.tool_record import arguments_of, summary_of

STORED_WITHIN_S = 10.0
"""Whoever asked has gone by then, so what was asked is not done any more."""

Answer = TypeVar("Answer", bound=Struct)


class ToolCalls:
    """A call without `tool.returned` was under way when the service was killed: it may or may not have been done."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def record(
        self, sandbox: str, tool: str, request: FileRequest, work: Callable[[], Awaitable[Answer]], *, changes: bool
    ) -> Answer:
        """Do it, between its two events. What `changes` something begins when the log has the first of them.

        Raises what the work raises, and `Unavailable` when the log does not take the first event.
        """
        call, begun_ns = new_id("t"), time.time_ns()
        invoking = self.invoked(sandbox, call, tool, request)
        if changes:
            await invoking
            answer = await _outcome(work())
        else:
            answer = await _meanwhile(invoking, work())
        failure = answer.failure() if isinstance(answer, ClocheError) else None
        summary = {} if isinstance(answer, ClocheError) else summary_of(answer)
        await self.returned(
            sandbox, call, tool, begun_ns=begun_ns, asked_by=request.asked_by, summary=summary, failure=failure
        )
        if isinstance(answer, ClocheError):
            raise answer
        return answer

    async def invoked(self, sandbox: str, call: str, tool: str, request: FileRequest) -> None:
        """Raises `Unavailable` when the log does not take it in time: it may or may not be stored."""
        fact = ToolInvoked(call=call, tool=tool, arguments=arguments_of(request), by=request.by)
        try:
            async with asyncio.timeout(STORED_WITHIN_S):
                await self._append(sandbox, fact, f"{sandbox}.{call}.invoked", request.asked_by)
        except TimeoutError:
            raise Unavailable(f"the log does not take events: {tool} was not begun") from None

    async def returned(
        self,
        sandbox: str,
        call: str,
        tool: str,
        *,
        begun_ns: int,
        asked_by: str | None,
        summary: JsonObject,
        failure: Failure | None = None,
    ) -> None:
        """Said as often as one likes, it is in the log once."""
        duration_ms = round(max(0, time.time_ns() - begun_ns) / 1e6, 3)
        fact = ToolReturned(call=call, tool=tool, duration_ms=duration_ms, summary=summary, failure=failure)
        await self._append(sandbox, fact, f"{sandbox}.{call}.returned", asked_by)

    async def _append(self, sandbox: str, fact: Fact, event_id: str, asked_by: str | None) -> None:
        await self._journal.append(self._journal.write(sandbox, fact, id=event_id, command=asked_by))


async def _meanwhile(invoking: Awaitable[None], work: Awaitable[Answer]) -> Answer | ClocheError:
    """What only reads need not wait for the log; but nobody hears of it before the log has it."""
    async with asyncio.TaskGroup() as tasks:
        stored = tasks.create_task(_outcome(invoking))
        done = tasks.create_task(_outcome(work))
    refusal = stored.result()
    if isinstance(refusal, ClocheError):
        raise refusal
    return done.result()


Result = TypeVar("Result")


async def _outcome(work: Awaitable[Result]) -> Result | ClocheError:
    try:
        return await work
    except ClocheError as error:
        return error
