"""What went to the CLI with a tool call, until the model has seen it.

The CLI shows it to the model with the call's result, and forgets it where the call is interrupted.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from services.agent.lines import Line
from services.agent.record import Steer, load
from services.agent.runtimes.claude.events import SYNTHETIC
from services.agent.runtimes.claude.frames import Frame, name, part, parts, text
from services.agent.runtimes.claude.questions import Question
from services.agent.runtimes.claude.recent import Recent
from services.agent.stage import Stage


class Words(NamedTuple):
    call: str
    text: str


def hook_key(process: str, offset: int) -> str:
    """Under which something is delivered with the question that stands there in the process's output."""
    return f"{process}/hook/{offset}"


def shown(said: tuple[Steer, ...]) -> str:
    return "\n\n".join(steer.shown for steer in said)


async def on_record(stage: Stage) -> dict[str, str]:
    """What earlier lives of this service have delivered, by key; whether or not it went to the CLI."""
    record = await load(stage.bus, stage.state.sandbox, stage.run) if stage.has_process else None
    return {} if record is None else {key: shown(tuple(said)) for key, said in record.delivered.items()}


class Given:
    """Fed with every line. `delivered`: see `on_record`."""

    def __init__(self, process: str, delivered: Mapping[str, str]) -> None:
        self._process = process
        self._delivered = delivered
        self._words: dict[int, Words] = {}
        """By where the CLI has asked about the call."""
        self._parents: Recent[str] = Recent()
        self._ended: Recent[None] = Recent()
        self._newest: Recent[str] = Recent()
        """By parent: the message of the model that came last."""

    def give(self, question: Question, words: str) -> None:
        self._words[question.offset] = Words(question.call, words)

    def unseen(self) -> tuple[str, ...]:
        return tuple(words.text for words in self._words.values())

    def repeat(self, line: bytes) -> None:
        """What is in this line need not be told again."""
        said = line.decode("utf-8", "replace")
        self._words = {at: words for at, words in self._words.items() if json.dumps(words.text)[1:-1] not in said}

    def feed(self, line: Line, frame: Frame) -> None:
        match frame["type"]:
            case "control_request":
                if words := self._delivered.get(hook_key(self._process, line.offset)):
                    self.give(Question(line.offset, name(part(frame, "request"), "tool_use_id")), words)
            case "assistant":
                self._assistant(part(frame, "message"), name(frame, "parent_tool_use_id"))
            case "user":
                for each in parts(part(frame, "message"), "content"):
                    self._ended[name(each, "tool_use_id")] = None

    def _assistant(self, message: Frame, parent: str) -> None:
        newest = name(message, "id")
        if text(message, "model") == SYNTHETIC:
            return
        if self._newest.get(parent) != newest:
            self._newest[parent] = newest
            self._words = {at: words for at, words in self._words.items() if not self._is_seen(words.call, parent)}
        for block in parts(message, "content"):
            if block.get("type") == "tool_use":
                self._parents[name(block, "id")] = parent
                # Models use an id again: then it is that of a call which has not ended.
                self._ended.pop(name(block, "id"), None)

    def _is_seen(self, call: str, parent: str) -> bool:
        return call in self._ended and self._parents.get(call) == parent
