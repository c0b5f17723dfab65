"""The tool that runs a command: a real one of the sandbox, every byte of it on the log."""

import asyncio
import posixpath
import time

import anyio
import msgspec

from contracts.commands.command import Asker, RunCommand
from contracts.errors import ClocheError, Invalid, Unavailable, from_failure
from contracts.events.command import Stream
from infra.client import CommandResult, Execution
from infra.ids import new_id
from services.mcp import texts
from services.mcp.answers import RunAnswer
from services.mcp.arguments import Run
from services.mcp.call import Call
from services.mcp.clipping import Clipping
from services.mcp.outcome import Outcome
from services.mcp.patience import connected

STORED_WITHIN_S = 10.0
CANCELLED_WITHIN_S = 5.0
GRACE_MS = 1000
REPORT_S = 1.0
ABANDONED = "nobody waits for it any more"


async def run(call: Call, wanted: Run) -> Outcome:
    """Cancelled, it cancels the command, with all that the command started."""
    order = _checked(call, wanted)
    await connected(call.bus)
    execution = await _begin(call, order)
    try:
        answer = await _Followed(call, execution, wanted.timeout_ms / 1000).to_its_end()
    except asyncio.CancelledError:
        await _cancel(execution)
        raise
    return Outcome(answer, texts.run_text(answer))


def _checked(call: Call, wanted: Run) -> RunCommand:
    """Raises `Invalid`: an order that the executor could not even read would be refused too late."""
    order = {
        "shell": wanted.command,
        "cwd": posixpath.normpath(posixpath.join(call.sandbox.state.workspace, wanted.cwd)),
        "env": wanted.env,
        "timeout_ms": wanted.timeout_ms,
    }
    try:
        return msgspec.convert(order, RunCommand)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from error


async def _begin(call: Call, order: RunCommand) -> Execution:
    """Not to be cancelled halfway: then nobody would know whether there is a command to cancel."""
    exec_id = new_id("e")
    with anyio.move_on_after(STORED_WITHIN_S, shield=True):
        return await call.sandbox.start(
            order.shell or "",
            id=exec_id,
            cwd=order.cwd,
            env=order.env,
            timeout_ms=order.timeout_ms,
            asker=Asker.AGENT,
        )
    raise Unavailable(f"the command was not taken in time; it may run all the same, as exec {exec_id}")


async def _cancel(execution: Execution) -> None:
    with anyio.move_on_after(CANCELLED_WITHIN_S, shield=True):
        await execution.cancel(grace_ms=GRACE_MS, reason=ABANDONED)


class _Followed:
    """A command, followed through the log, while whoever waits hears of it."""

    def __init__(self, call: Call, execution: Execution, limit_s: float) -> None:
        self._call = call
        self._execution = execution
        self._limit_s = limit_s
        self._begun = time.monotonic()
        self._written = {Stream.STDOUT: Clipping(), Stream.STDERR: Clipping()}

    async def to_its_end(self) -> RunAnswer:
        """Raises the sandbox's error when the command was never run."""
        failed: ClocheError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_telling)
            try:
                await self._read()
            except ClocheError as error:
                failed = error
            tasks.cancel_scope.cancel()
        if failed is not None:
            raise failed
        return self._answer(self._result())

    async def _read(self) -> None:
        async for chunk in self._execution.output():
            self._written[chunk.stream].add(chunk.data)

    async def _keep_telling(self) -> None:
        while True:
            size = sum(each.size for each in self._written.values())
            message = f"exec {self._execution.id}: {size} bytes of output"
            await self._call.report(time.monotonic() - self._begun, self._limit_s, message)
            await asyncio.sleep(REPORT_S)

    def _result(self) -> CommandResult:
        result = self._execution.result
        if result is None:
            raise ClocheError(f"the log ended before command {self._execution.id!r} did")
        if result.failure is not None:
            raise from_failure(result.failure)
        return result

    def _answer(self, result: CommandResult) -> RunAnswer:
        stdout, stderr = (self._written[stream].clipped() for stream in (Stream.STDOUT, Stream.STDERR))
        return RunAnswer(
            exec=result.exec,
            outcome=result.outcome,
            exit_code=result.exit_code,
            signal=result.signal,
            timed_out=result.timed_out,
            duration_ms=result.duration_ms,
            stdout=stdout.text,
            stderr=stderr.text,
            stdout_bytes=stdout.size,
            stderr_bytes=stderr.size,
            truncated=stdout.is_cut or stderr.is_cut,
            cause=result.cause,
        )
