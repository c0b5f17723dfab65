"""The SDK's events as ours."""

from __future__ import annotations

import asyncio
import collections
import json
import time
from typing import Any

from services.agent.runtimes.openhands.inside.out import Out
from services.agent.runtimes.openhands.inside.sdk import OWN_TOOLS

LONGEST_TEXT = 200_000
PART_EVERY_S = 0.05


class Teller:
    def __init__(self, out: Out, sdk: Any) -> None:
        self._out = out
        self._sdk = sdk
        self._numbers = {"message": 1, "thinking": 1}
        self._parts = {"message": "", "thinking": ""}
        self._begun: set[str] = set()
        self._telling: asyncio.TimerHandle | None = None
        self._spent: dict[str, float] = collections.defaultdict(int)
        self._uses = 0
        self._began: dict[str, float] = {}
        self.last_words = ""
        self.trouble: dict[str, str] = {}

    def take(self, event: Any) -> None:
        kinds = self._sdk.event
        if isinstance(event, kinds.ActionEvent):
            self._tell_action(event)
        elif isinstance(event, kinds.ObservationBaseEvent):
            self._tell_result(event)
        elif isinstance(event, kinds.MessageEvent) and event.source == "agent":
            message = event.llm_message
            self._tell_thinking(message.reasoning_content, message.thinking_blocks)
            self._tell_message(_text(message.content))
        elif type(event).__name__ == "ConversationErrorEvent":
            self.trouble = {"code": event.code, "detail": event.detail[:LONGEST_TEXT]}
        elif isinstance(event, kinds.Condensation):
            self._out.tell("note", text="the conversation was condensed")

    def _tell_action(self, event: Any) -> None:
        self._tell_thinking(event.reasoning_content, event.thinking_blocks)
        self._tell_message(_text(event.thought))
        if event.tool_name == "finish":
            self._tell_message(event.message or "")
        elif event.tool_name == "think":
            self._tell_thinking(getattr(event.action, "thought", ""), ())
        else:
            self._uses += 1
            self.begin(event.tool_call_id)
            self._out.tell("tool_use", call=event.tool_call_id, tool=event.tool_name, input=arguments(event))

    def begin(self, call: str) -> None:
        self._began[call] = time.monotonic()

    def _tell_result(self, event: Any) -> None:
        if event.tool_name in OWN_TOOLS:
            return
        observation = getattr(event, "observation", None)
        failed = observation is None or bool(observation.is_error)
        words = _text(event.to_llm_message().content)
        began = self._began.pop(event.tool_call_id, None)
        self._out.tell(
            "tool_result",
            call=event.tool_call_id,
            tool=event.tool_name,
            text=words[:LONGEST_TEXT],
            truncated=len(words) > LONGEST_TEXT,
            ok=not failed,
            duration_ms=0 if began is None else (time.monotonic() - began) * 1000,
        )

    def _tell_thinking(self, reasoning: str | None, blocks: Any) -> None:
        words = reasoning or "\n".join(getattr(block, "thinking", "") for block in blocks)
        if words.strip():
            self._tell_whole("thinking", words[:LONGEST_TEXT])

    def _tell_message(self, words: str) -> None:
        if words.strip():
            self.last_words = words[:LONGEST_TEXT]
            self._tell_whole("message", self.last_words)

    def _tell_whole(self, kind: str, words: str) -> None:
        self._out.tell(kind, message=self._name(kind), text=words)
        self._numbers[kind] += 1
        self._parts[kind] = ""
        self._begun.discard(kind)

    def _name(self, kind: str) -> str:
        return f"{kind[0]}{self._numbers[kind]}"

    def abandon(self) -> None:
        """What was begun and does not go on keeps its name for itself."""
        for kind in self._begun:
            self._numbers[kind] += 1
        self._begun.clear()
        self._parts = dict.fromkeys(self._parts, "")

    def take_token(self, chunk: Any) -> None:
        """Words as they come, gathered for a moment. Called in the loop."""
        for choice in chunk.choices or ():
            for kind, name in (("thinking", "reasoning_content"), ("message", "content")):
                words = getattr(choice.delta, name, None)
                if isinstance(words, str):
                    self._parts[kind] += words
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(PART_EVERY_S, self._tell_parts)

    def _tell_parts(self) -> None:
        self._telling = None
        for kind, words in self._parts.items():
            if words:
                self._out.tell("part", of=kind, message=self._name(kind), text=words)
                self._parts[kind] = ""
                self._begun.add(kind)

    def tell_usage(self, metrics: Any, **more: Any) -> None:
        """What was spent since the last time."""
        used = metrics.accumulated_token_usage
        now: dict[str, float] = {
            "cost_usd": metrics.accumulated_cost,
            "input_tokens": used.prompt_tokens,
            "output_tokens": used.completion_tokens,
            "cache_read_tokens": used.cache_read_tokens,
            "cache_write_tokens": used.cache_write_tokens,
            "reasoning_tokens": used.reasoning_tokens,
            "tool_calls": self._uses,
        }
        spent = {name: value - self._spent[name] for name, value in now.items()}
        if more or any(amount for name, amount in spent.items() if name != "tool_calls"):
            self._spent.update(now)
            self._out.tell("usage", **spent, **more)

    def forget_spent(self, metrics: Any) -> None:
        """What a restored conversation has cost before is not ours."""
        used = metrics.accumulated_token_usage
        self._spent.update(
            cost_usd=metrics.accumulated_cost,
            input_tokens=used.prompt_tokens,
            output_tokens=used.completion_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_tokens=used.cache_write_tokens,
            reasoning_tokens=used.reasoning_tokens,
        )


def arguments(event: Any) -> dict[str, Any]:
    try:
        given = json.loads(event.tool_call.arguments)
    except ValueError:
        given = event.tool_call.arguments
    return given if isinstance(given, dict) else {"arguments": given}


def _text(content: Any) -> str:
    return "\n".join(part.text for part in content if hasattr(part, "text"))
