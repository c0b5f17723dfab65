"""What the tools of a script do: commands, and operations on files."""

import time
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct

from contracts.errors import Conflict, SandboxInvalidState, Unavailable
from contracts.files import ContentKind, FileContent
from contracts.message import JsonObject
from contracts.payload import unpack
from infra.client.files import Files
from services.agent.commands import Carried
from services.agent.process import ProcessLost
from services.agent.runtimes.script import recall
from services.agent.runtimes.script.calls import DONE, SILENCE, UNEXPECTED, Call, Outcome
from services.agent.runtimes.script.script import Edit, Read, Run, Write
from services.agent.stage import Stage

UNTIL_THERE = ("/bin/sh", "-c", 'until [ -e "$1" ]; do sleep 0.05; done', "wait")


class Tools:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def run(self, call: Call, command: str | tuple[str, ...], step: Run) -> Outcome:
        """Raises `ProcessLost`, the reason where it was rejected."""
        carried = await self.carried(call, command, step.timeout_ms)
        result = carried.result
        ended = "" if result.outcome == "completed" else f"[{result.outcome}: {result.cause}]"
        code = f"[exit code {result.shell_code}]" if not ended and result.shell_code else ended
        expected = step.expect is None or (not ended and result.shell_code == step.expect)
        return Outcome(
            ok=expected if step.expect is not None else not code,
            output="\n".join(part for part in (carried.output.rstrip("\n"), code) if part),
            way=DONE if expected else UNEXPECTED,
            duration_ms=result.duration_ms,
            truncated=carried.truncated,
        )

    async def carried(self, call: Call, command: str | tuple[str, ...], timeout_ms: int | None) -> Carried:
        """The same again for the same call."""
        try:
            return await self._stage.commands.run(call.key, command, timeout_ms=timeout_ms)
        except (SandboxInvalidState, Conflict, Unavailable) as error:
            # It does not run now, so neither would what follows: the rest waits until it does.
            raise ProcessLost(f"the sandbox did not take the command: {error.message}") from error

    async def until_there(self, call: Call, path: str, timeout_ms: int | None) -> Outcome:
        carried = await self.carried(call, (*UNTIL_THERE, path), timeout_ms)
        result = carried.result
        if result.timed_out:
            return Outcome(True, f"{path} is not there", SILENCE, result.duration_ms)
        there = result.exit_code == 0
        return Outcome(there, f"{path} is there" if there else result.cause, DONE, result.duration_ms)

    async def write(self, call: Call, step: Write, content: str) -> Outcome:
        def work(files: Files) -> Awaitable[Struct]:
            return files.write(step.write, content, append=step.append, mode=step.mode)

        # What replaces a whole file is as well done twice.
        return await self._change(call, work, again=not step.append)

    async def edit(self, call: Call, step: Edit, old: str, new: str) -> Outcome:
        def work(files: Files) -> Awaitable[Struct]:
            return files.edit(step.edit, old, new, replace_all=step.all)

        return await self._change(call, work, again=False)

    async def read(self, call: Call, step: Read) -> Outcome:
        began = time.monotonic()
        found = await self._stage.files(call.id).read(step.read, offset=step.offset, limit=step.limit)
        return Outcome(True, _content(found), duration_ms=_since(began), truncated=found.truncated)

    async def _change(self, call: Call, work: Callable[[Files], Awaitable[Struct]], *, again: bool) -> Outcome:
        try:
            known = await recall.returned(self._stage, call.id) if self._stage.is_told(call.used) else None
        except recall.Unclear:
            if not again:
                return Outcome(False, "it was under way when this service ended: nobody knows whether it was done")
            known = None
        if known is not None:
            failure = known.failure
            words = f"{failure.code}: {failure.message}" if failure is not None else _shown(known.summary)
            return Outcome(failure is None, words, duration_ms=known.duration_ms)
        began = time.monotonic()
        answer = await work(self._stage.files(call.id))
        return Outcome(True, _shown(msgspec.to_builtins(answer)), duration_ms=_since(began))


def _since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 3)


def _shown(summary: JsonObject) -> str:
    """Of an answer, or of what the log has of it: the same."""
    if "replacements" in summary:
        return f"{summary.get('replacements')} replaced, the first in line {summary.get('first_line')}"
    return f"{summary.get('bytes')} bytes written, {summary.get('size')} in the file"


def _content(found: FileContent) -> str:
    if found.kind != ContentKind.TEXT:
        return f"[{found.kind}, {found.bytes} bytes, {found.mime}]"
    return unpack(found.content, found.encoding).decode("utf-8", "replace")
