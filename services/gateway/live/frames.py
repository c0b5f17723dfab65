"""What is said over a WebSocket, beside the events themselves: JSON texts whose `type` comes first."""

import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from contracts import codec
from contracts.errors import ClocheError, Invalid
from contracts.ids import SandboxId

MOST_TYPES = 50
MOST_SANDBOXES = 1000

Sequence = Annotated[int, Meta(ge=0, le=1 << 53)]
Id = Annotated[str, Meta(max_length=200)]
"""A client's own, of a frame: what comes of it names it."""
Types = Annotated[tuple[Annotated[str, Meta(max_length=200)], ...], Meta(max_length=MOST_TYPES)]
Sandboxes = Annotated[tuple[SandboxId, ...], Meta(max_length=MOST_SANDBOXES)]


class Connected(Struct, frozen=True, kw_only=True, tag="connected"):
    """The first of all: history from the cursor follows, then what happens."""

    sandbox_id: str | None
    """None where many are followed."""
    status: str | None
    head_sequence: int
    """The log's last sequence at that moment."""
    buffered_events_count: int | None
    """Events from the cursor to the head; None where they are not counted, as what is out of sight is among them."""


class Heartbeat(Struct, frozen=True, kw_only=True, tag="heartbeat"):
    timestamp: datetime.datetime
    head_sequence: int
    """The log's last sequence, as far as it is known."""


class Problem(Struct, frozen=True, kw_only=True, tag="error", omit_defaults=True):
    code: str
    message: str
    id: str | None = None
    """Of the client's frame that it is about, where there is one."""
    sequence: int | None = None
    """Up to which everything was sent."""
    first_sequence: int | None = None
    last_sequence: int | None = None
    """Of what the log lacks."""
    retryable: bool = False
    details: dict[str, str] = {}


class Result(Struct, frozen=True, kw_only=True, tag="result"):
    id: str | None
    command: str
    payload: Any


class Pong(Struct, frozen=True, kw_only=True, tag="pong"):
    id: str | None


class Subscribed(Struct, frozen=True, kw_only=True, tag="subscribed"):
    """What comes after this is by the new filters."""

    id: str | None
    from_: int = msgspec.field(name="from")
    types: tuple[str, ...]
    sandboxes: tuple[str, ...]


class CommandFrame(Struct, frozen=True, kw_only=True, tag="command", forbid_unknown_fields=True):
    id: Id | None = None
    command: Annotated[str, Meta(max_length=100)]
    sandbox: SandboxId | None = None
    """Where many are followed."""
    key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """The same key again is the same order: for whoever has to repeat it after a lost connection."""
    payload: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


class PingFrame(Struct, frozen=True, kw_only=True, tag="ping", forbid_unknown_fields=True):
    id: Id | None = None


class SubscribeFrame(Struct, frozen=True, kw_only=True, tag="subscribe", forbid_unknown_fields=True):
    """All filters anew; without `from` it goes on behind the last event that was sent."""

    id: Id | None = None
    from_: Sequence | None = msgspec.field(name="from", default=None)
    types: Types = ()
    sandboxes: Sandboxes = ()


ClientFrame = CommandFrame | PingFrame | SubscribeFrame

_client_frames: msgspec.json.Decoder[ClientFrame] = msgspec.json.Decoder(ClientFrame)


def encode(frame: Struct) -> bytes:
    return codec.encode(frame)


def read_frame(text: str) -> ClientFrame:
    """Raises `Invalid` with the path of the first bad field."""
    try:
        return _client_frames.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise Invalid(f"not a frame: {error}"[:500]) from error


class _Named(Struct):
    id: Id | None = None


def id_in(text: str) -> str | None:
    """The id of a frame that is wrong otherwise, so that its sender can tell which one it was."""
    try:
        return msgspec.json.decode(text, type=_Named).id
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def problem_frame(error: ClocheError, id: str | None = None) -> Problem:  # noqa: A002
    return Problem(
        code=error.code, message=error.message, id=id, retryable=error.retryable, details=dict(error.details)
    )
