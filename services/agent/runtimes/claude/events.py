"""From the CLI's frames to facts of the run. Each under the key of the line that it came from."""

import time

from contracts.errors import AgentFailed, Failure
from contracts.events import agent as facts
from services.agent.runtimes.claude.frames import Frame, count, name, part, parts, text
from services.agent.runtimes.claude.recent import Recent
from services.agent.runtimes.claude.spending import Spending
from services.agent.stage import Stage

SYNTHETIC = "<synthetic>"
"""The CLI's own words in the model's place, where the model gave none."""


class Telling:
    """Fed with every frame of one process, from its first."""

    def __init__(self, stage: Stage, already: float) -> None:
        """`already`: USD that the CLI counts as spent when it begins."""
        self._stage = stage
        self._run = stage.run
        self._blocks: Recent[int] = Recent()
        """Of each message of the model: the block that it is at."""
        self._streamed: Recent[str] = Recent()
        """By parent: the message that is coming in parts."""
        self._begun: Recent[float] = Recent()
        """When tool calls began that were told in this life."""
        self._spending = Spending(stage, already)
        self.result = ""
        """Of the last turn."""
        self.trouble: AgentFailed | None = None
        """What the last turn ended with, where that ends the run."""
        self.budget = ""
        """In words, where the CLI has stopped for the sake of one."""

    async def feed(self, key: str, frame: Frame) -> None:
        match frame["type"]:
            case "stream_event":
                await self._stream(key, frame)
            case "assistant":
                await self._assistant(key, frame)
            case "user":
                await self._results(key, frame)
            case "system":
                await self._system(key, frame)
            case "result":
                await self._result(key, frame)

    async def _stream(self, key: str, frame: Frame) -> None:
        event, parent = part(frame, "event"), name(frame, "parent_tool_use_id")
        message = self._streamed.get(parent, "")
        match event.get("type"):
            case "message_start":
                began = part(event, "message")
                self._streamed[parent] = name(began, "id")
                self._spending.ask(part(began, "usage"))
            case "content_block_start" if message:
                self._blocks[message] = count(event, "index")
            case "content_block_delta" if message and not parent:
                await self._delta(message, part(event, "delta"))
            case "message_delta":
                await self._spending.answer(f"{key}.0", part(event, "usage"))

    async def _delta(self, message: str, delta: Frame) -> None:
        called = f"{message}/{self._blocks.get(message, 0)}"
        if said := text(delta, "text"):
            await self._stage.partials.add("message", called, said)
        elif thought := text(delta, "thinking"):
            await self._stage.partials.add("thinking", called, thought)

    async def _assistant(self, key: str, frame: Frame) -> None:
        message, parent = part(frame, "message"), name(frame, "parent_tool_use_id")
        if text(message, "model") == SYNTHETIC:
            return
        for number, block in enumerate(parts(message, "content")):
            called = self._called(name(message, "id"), parent)
            match block.get("type"):
                case "text":
                    await self._say(f"{key}.{number}", called, text(block, "text"), parent)
                case "thinking":
                    await self._think(f"{key}.{number}", called, text(block, "thinking"), parent)
                case "tool_use":
                    await self._use(f"{key}.{number}", block, parent)

    def _called(self, message: str, parent: str) -> str:
        """Of a block: the CLI tells each in a frame of its own, and where it streams, before the block's end."""
        if self._streamed.get(parent) != message:
            self._blocks[message] = self._blocks.get(message, -1) + 1
        return f"{message}/{self._blocks.get(message, 0)}"

    async def _say(self, key: str, called: str, said: str, parent: str) -> None:
        if not parent:
            await self._stage.partials.whole("message", called)
        if said:
            await self._stage.tell(
                key, facts.AgentMessage(run=self._run, text=said, message=called, parent=parent or None)
            )

    async def _think(self, key: str, called: str, thought: str, parent: str) -> None:
        if not parent:
            await self._stage.partials.whole("thinking", called)
        if thought:
            await self._stage.tell(key, facts.AgentThinking(run=self._run, text=thought, message=called))

    async def _use(self, key: str, block: Frame, parent: str) -> None:
        call = name(block, "id")
        self._spending.calls += 1
        if not self._stage.is_told(key):
            self._begun[call] = time.monotonic()
        used = facts.AgentToolUse(
            run=self._run, call=call, tool=text(block, "name"), input=part(block, "input"), parent=parent or None
        )
        await self._stage.tell(key, used)

    async def _results(self, key: str, frame: Frame) -> None:
        for number, block in enumerate(parts(part(frame, "message"), "content")):
            if block.get("type") != "tool_result":
                continue
            call = name(block, "tool_use_id")
            begun = self._begun.pop(call, None)
            told = facts.AgentToolResult(
                run=self._run,
                call=call,
                ok=block.get("is_error") is not True,
                output=_output(block),
                duration_ms=None if begun is None else (time.monotonic() - begun) * 1000,
            )
            await self._stage.tell(f"{key}.{number}", told)

    async def _system(self, key: str, frame: Frame) -> None:
        match frame.get("subtype"):
            case "init":
                self._spending.model = name(frame, "model")
            case "api_retry":
                words = f"the model answered {count(frame, 'error_status')} ({text(frame, 'error')}): tried again"
                failure = Failure(code=AgentFailed.code, message=words)
                await self._stage.tell(f"{key}.0", facts.AgentError(run=self._run, failure=failure, final=False))

    async def _result(self, key: str, frame: Frame) -> None:
        self.result = text(frame, "result")
        self.trouble = None
        subtype = text(frame, "subtype")
        if subtype in ("error_max_budget_usd", "error_max_turns"):
            self.budget = _errors(frame) or subtype
        elif frame.get("is_error") is True and subtype != "error_during_execution":
            await self._trouble(key, AgentFailed(self.result or _errors(frame) or "no answer", reason="model"))
        await self._spending.turn(f"{key}.0", frame)

    async def _trouble(self, key: str, trouble: AgentFailed) -> None:
        """The end of a run, unless somebody is there to say how to go on."""
        if not self._stage.order.keep_open:
            self.trouble = trouble
            return
        told = facts.AgentError(run=self._run, failure=trouble.failure(), final=False)
        await self._stage.tell(f"{key}.trouble", told)


def _output(block: Frame) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(text(each, "text") or f"[{text(each, 'type')}]" for each in parts(block, "content"))


def _errors(frame: Frame) -> str:
    found = frame.get("errors")
    return "; ".join(each for each in found if isinstance(each, str)) if isinstance(found, list) else ""
