"""What went to the CLI with a tool call, until the model has seen it.

The CLI shows it to the model with the call's result, and forgets it where the call is interrupted.
"""

import json

from contracts.errors import Invalid
from services.agent.runtimes.claude import frames
from services.agent.runtimes.claude.events import SYNTHETIC
from services.agent.runtimes.claude.frames import Frame, name, part, parts, text
from services.agent.runtimes.claude.recent import Recent


class Given:
    """Fed with every frame. `inputs` is what the CLI was told before this life of the service."""

    def __init__(self, inputs: tuple[bytes, ...]) -> None:
        self._answers = dict(found for line in inputs if (found := _context(line)) is not None)
        self._words: dict[str, str] = {}
        """By tool call."""
        self._parents: Recent[str] = Recent()
        self._ended: Recent[None] = Recent()
        self._newest: Recent[str] = Recent()
        """By parent: the message of the model that came last."""

    def give(self, call: str, words: str) -> None:
        self._words[call] = words

    def unseen(self) -> tuple[str, ...]:
        return tuple(self._words.values())

    def repeat(self, line: bytes) -> None:
        """What is in this line need not be told again."""
        said = line.decode("utf-8", "replace")
        self._words = {call: words for call, words in self._words.items() if json.dumps(words)[1:-1] not in said}

    def feed(self, frame: Frame) -> None:
        match frame["type"]:
            case "control_request":
                asked = part(frame, "request")
                if words := self._answers.get(name(frame, "request_id")):
                    self.give(name(asked, "tool_use_id"), words)
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
            for call in [each for each in self._words if each in self._ended and self._parents.get(each) == parent]:
                del self._words[call]
        for block in parts(message, "content"):
            if block.get("type") == "tool_use":
                self._parents[name(block, "id")] = parent


def _context(line: bytes) -> tuple[str, str] | None:
    """The request that it answers, and the words for the model."""
    try:
        said = frames.parse(line)
    except Invalid:
        return None
    response = part(said or {}, "response")
    words = text(part(part(response, "response"), "hookSpecificOutput"), "additionalContext")
    return (name(response, "request_id"), words) if words else None
