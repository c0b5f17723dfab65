"""Commands that a run has carried out in its sandbox, each once under its key."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from contracts import subjects
from contracts.commands.command import Asker
from contracts.errors import ClocheError, Failure, from_failure
from contracts.events.command import Stream
from contracts.state import SandboxState
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.execution import CommandResult, Execution
from infra.client.sandbox import Sandbox
from services.agent.names import command_name
from services.agent.process import ProcessLost
from services.agent.record import Record
from services.agent.sizes import cut

Falls = Callable[[], Awaitable[bool]]
OF_THE_PROGRAM = frozenset({"NOT_FOUND", "NOT_EXECUTABLE"})
"""Reasons for which no sandbox would run it."""
KEPT = 64 * 1024
"""Bytes of output that are held; the whole is on record."""


class Carried(NamedTuple):
    result: CommandResult
    """Without output."""
    output: str
    """Of stdout and stderr in the order of the log, the beginning and the end where it is long."""
    truncated: bool


def is_the_sandboxs(failure: Failure | None) -> bool:
    """Whether a command was rejected for a reason that may lie with the sandbox, not with what was to be run."""
    return failure is not None and failure.details.get("reason") not in OF_THE_PROGRAM


class Commands:
    def __init__(self, bus: Bus, state: SandboxState, record: Record, falls: Falls) -> None:
        """`falls`: whether the sandbox goes down about now."""
        self._bus = bus
        self._sandbox = Sandbox(bus, state)
        self._record = record
        self._falls = falls
        self._stopped: set[str] = set()
        self.running: dict[str, Execution] = {}
        """Also those that nobody waits for any more, because the run is to end."""

    async def run(
        self,
        key: str,
        command: str | Sequence[str],
        *,
        input: bytes | None = None,  # noqa: A002
        timeout_ms: int | None = None,
    ) -> Carried:
        """To its end. When cancelled, the command goes on: end it with `stop` where it is not wanted.

        Raises `ProcessLost` where nobody knows how it ended, or the sandbox's error when it was rejected.
        """
        exec_id = command_name(self._record.run, key)
        (events,) = subjects.events_of(self._sandbox.id, scope=exec_id)
        begun = await reader.patiently(
            self._bus, lambda bus: reader.first(bus, events, start=self._record.first_sequence)
        )
        self._record.ordered.add(exec_id)
        # Written at offsets, so that what is written again after a crash is written once.
        execution = self._sandbox.execution(exec_id, written=0)
        self.running[exec_id] = execution
        if begun is None:
            execution = self.running[exec_id] = await self._sandbox.start(
                command, id=exec_id, timeout_ms=timeout_ms, stdin=input is not None, asker=Asker.AGENT
            )
        if input is not None:
            await execution.write(input)
            await execution.close_stdin()
        try:
            carried = await self._collect(execution)
        except ClocheError:
            self._forget(exec_id)
            raise
        self._forget(exec_id)
        return carried

    def _forget(self, exec_id: str) -> None:
        self.running.pop(exec_id, None)
        self._record.ordered.discard(exec_id)

    async def stop(self, reason: str, *, grace_ms: int = 500) -> None:
        """End all that run now, with their trees."""
        async with asyncio.TaskGroup() as tasks:
            for execution in list(self.running.values()):
                self._stopped.add(execution.id)
                tasks.create_task(execution.cancel(grace_ms=grace_ms, reason=cut(reason, 1000).text))

    async def signal(self, number: int) -> None:
        for execution in list(self.running.values()):
            with contextlib.suppress(ClocheError):
                await execution.signal(number)

    async def _collect(self, execution: Execution) -> Carried:
        head, tail, total = bytearray(), bytearray(), 0
        async for chunk in execution.output():
            if chunk.stream in (Stream.STDOUT, Stream.STDERR):
                total += len(chunk.data)
                room = KEPT // 2 - len(head)
                head += chunk.data[:room]
                tail = (tail + chunk.data[max(room, 0) :])[-KEPT // 2 :]
        result = execution.result
        if result is None or result.outcome == "lost":
            raise ProcessLost(f"the command was lost: {result.cause if result else 'the log ended'}")
        killed = result.may_be_killed or is_the_sandboxs(result.failure)
        if killed and execution.id not in self._stopped and await self._falls():
            raise ProcessLost("the sandbox went down with the command")
        if result.failure is not None:
            raise from_failure(result.failure)
        cut = total > len(head) + len(tail)
        between = f"\n[… {total - len(head) - len(tail)} bytes …]\n".encode() if cut else b""
        return Carried(result, bytes(head + between + tail).decode("utf-8", "replace"), cut)
