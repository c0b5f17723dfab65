"""What the program inside writes, line by line. It is hostile until it is read through these."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from contracts.message import JsonObject

Id = Annotated[str, Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Amount = Annotated[float, Meta(ge=0, le=1e12)]


class Event(Struct, frozen=True, kw_only=True, tag_field="event"):
    n: int
    """Its number, from 1."""


class Hello(Event, frozen=True, kw_only=True, tag="hello"):
    python: str


class Ready(Event, frozen=True, kw_only=True, tag="ready"):
    sdk: str
    resumed: bool


class Transcript(Event, frozen=True, kw_only=True, tag="transcript"):
    path: Id
    data: str
    replaces: bool


class Part(Event, frozen=True, kw_only=True, tag="part"):
    of: Literal["message", "thinking"]
    message: Id
    text: str


class Message(Event, frozen=True, kw_only=True, tag="message"):
    message: Id
    text: str


class Thinking(Event, frozen=True, kw_only=True, tag="thinking"):
    message: Id
    text: str


class ToolUse(Event, frozen=True, kw_only=True, tag="tool_use"):
    call: Id
    tool: Id
    input: JsonObject


class ToolResult(Event, frozen=True, kw_only=True, tag="tool_result"):
    call: Id
    tool: Id
    text: str
    truncated: bool
    ok: bool
    duration_ms: Amount


class Usage(Event, frozen=True, kw_only=True, tag="usage"):
    """Since the last of these."""

    cost_usd: Amount
    input_tokens: Count
    """What came from a cache among them."""
    output_tokens: Count
    cache_read_tokens: Count
    cache_write_tokens: Count
    reasoning_tokens: Count
    tool_calls: Count
    turn_ms: Amount | None = None
    """At a turn's end."""


class Call(Struct, frozen=True, kw_only=True):
    call: Id
    tool: Id
    input: JsonObject


class ApprovalNeeded(Event, frozen=True, kw_only=True, tag="approval_needed"):
    """Nothing runs until there is a verdict on each."""

    ask: int
    calls: tuple[Call, ...]


class Between(Event, frozen=True, kw_only=True, tag="between"):
    """Tool calls have their results, and the model is asked again when this is answered."""

    ask: int


class Turn(Event, frozen=True, kw_only=True, tag="turn"):
    """It is over."""

    turn: int
    status: Id
    result: str
    code: str = ""
    detail: str = ""


class Interrupted(Event, frozen=True, kw_only=True, tag="interrupted"):
    id: Id
    killed: int


class Note(Event, frozen=True, kw_only=True, tag="note"):
    text: str


class Error(Event, frozen=True, kw_only=True, tag="error"):
    """The program ends with this."""

    code: str
    detail: str


Any = (
    Hello
    | Ready
    | Transcript
    | Part
    | Message
    | Thinking
    | ToolUse
    | ToolResult
    | Usage
    | ApprovalNeeded
    | Between
    | Turn
    | Interrupted
    | Note
    | Error
)

_DECODER = msgspec.json.Decoder(Any)


def read(line: bytes) -> Any:
    """Raises `ValueError` that says what is wrong with it."""
    try:
        event: Any = _DECODER.decode(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return event
