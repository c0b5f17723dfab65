"""An agent's tool calls, from what it says of them piece by piece."""

from typing import Any

import msgspec
from acp import schema

from contracts.agents import subject_of
from contracts.events.agent import AgentToolResult, AgentToolUse
from contracts.message import JsonObject
from services.agent.runtimes.acp.envelope import Broken

OPEN_CALLS = 1000
OUTPUT_CHARACTERS = 64 * 1024
NAME_CHARACTERS = 200
OTHER = "other"
ENDED = ("completed", "failed")

Told = AgentToolUse | AgentToolResult
Said = schema.ToolCall | schema.ToolCallUpdate


class Call:
    """One call. Later words replace earlier ones."""

    def __init__(self, own: str) -> None:
        self.id = own
        self.told = False
        self._title = ""
        self._kind: str | None = None
        self._input: Any = None
        self._output: Any = None
        self._content: list[Any] = []
        self._path = ""
        self.status: str | None = None

    def learn(self, said: Said) -> None:
        self._title = said.title or self._title
        self._kind = said.kind or self._kind
        self._input = said.raw_input if said.raw_input is not None else self._input
        self._output = said.raw_output if said.raw_output is not None else self._output
        self._content = said.content if said.content is not None else self._content
        self._path = said.locations[0].path if said.locations else self._path
        self.status = said.status or self.status

    @property
    def tool(self) -> str:
        """What kind of thing it does, in the protocol's own words: agents name their tools as they like."""
        return self._kind or OTHER

    @property
    def input(self) -> JsonObject:
        """Whole, however long it is: rules are about all of it."""
        own = _arguments(self._input)
        where = {"path": self._path} if self._path and not subject_of(own) else {}
        return {"title": self._title, **where, **own} if self._title else {**where, **own}

    @property
    def is_clear(self) -> bool:
        """Whether what it is about is known. Some agents open a call with an empty input and fill it in later."""
        return self._input != {} or self.status not in (None, "pending")

    def use(self, run: str) -> AgentToolUse:
        self.told = True
        return AgentToolUse(run=run, call=self.id, tool=self.tool, input=self.input)

    def result(self, run: str) -> AgentToolResult:
        text = "\n".join(filter(None, map(_shown, self._content))) or _plain(self._output)
        return AgentToolResult(
            run=run,
            call=self.id,
            ok=self.status == "completed",
            output=text[:OUTPUT_CHARACTERS],
            truncated=len(text) > OUTPUT_CHARACTERS,
        )


class Calls:
    """Those that have not ended. What ended is forgotten."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._open: dict[str, Call] = {}
        self.count = 0
        """Told in this turn."""

    def learn(self, said: Said) -> list[Told]:
        """Raises `Broken` for more open calls than anybody could mean."""
        call = self.of(said)
        told = self.clear(call) if call.is_clear else []
        if call.status in ENDED:
            del self._open[call.id]
            return [*told, call.result(self._run)]
        return told

    def of(self, said: Said) -> Call:
        own = said.tool_call_id
        if not 0 < len(own) <= NAME_CHARACTERS:
            raise Broken(f"a tool call's id has 1 to {NAME_CHARACTERS} characters, not {len(own)}")
        if own not in self._open and len(self._open) >= OPEN_CALLS:
            raise Broken(f"more than {OPEN_CALLS} tool calls at once")
        call = self._open.setdefault(own, Call(own))
        call.learn(said)
        return call

    def clear(self, call: Call) -> list[Told]:
        if call.told:
            return []
        self.count += 1
        return [call.use(self._run)]

    def clear_all(self) -> list[Told]:
        return [told for call in self._open.values() for told in self.clear(call)]

    def end(self) -> list[Told]:
        """The turn is over: nothing more will be heard of these."""
        told = self.clear_all()
        for call in self._open.values():
            call.status = "failed"
            told.append(call.result(self._run))
        self._open.clear()
        return told


def _arguments(given: Any) -> JsonObject:
    """What is not an object is what the call is about."""
    if isinstance(given, dict):
        return given
    return {} if given is None else {"command": given if isinstance(given, str | list) else str(given)}


def carried(value: JsonObject) -> JsonObject:
    """As it is, where it can stand in an event; else the beginning of it as text."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return {"cut": repr(value)[:OUTPUT_CHARACTERS]}
    return value if len(encoded) <= OUTPUT_CHARACTERS else {"cut": encoded.decode()[:OUTPUT_CHARACTERS]}


def _plain(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    encoded = msgspec.json.encode(carried({"value": value}))
    return encoded.decode().removeprefix('{"value":').removesuffix("}")


def _shown(part: Any) -> str:
    match part:
        case schema.ContentToolCallContent():
            return text_of(part.content)
        case schema.FileEditToolCallContent():
            return f"changed {part.path}"
        case schema.TerminalToolCallContent():
            return f"terminal {part.terminal_id}"
    return ""


def text_of(block: Any) -> str:
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return f"[{block.uri}]"
        case schema.EmbeddedResourceContentBlock():
            return getattr(block.resource, "text", "") or f"[{block.resource.uri}]"
    return f"[{block.type}]"
