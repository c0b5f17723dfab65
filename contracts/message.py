"""The envelope of every message: CloudEvents 1.0, structured mode, UTF-8 JSON."""

import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from contracts.ids import END, EventId, SandboxId, Token

SPEC_VERSION = "1.0"

SpecVersion = Annotated[str, Meta(pattern=r"^1\.0" + END)]
Tag = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*" + END, max_length=100)]
Time = Annotated[datetime.datetime, Meta(tz=True)]
"""RFC 3339, always with its zone: times without one cannot be compared with the others."""


class Fact(Struct, frozen=True, kw_only=True):
    """The data of an event: something that happened. New fields get defaults, nothing is ever retyped."""


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data of a command: something that is wanted. People type these, so an unknown field is refused."""


class Event(Struct, frozen=True, kw_only=True):
    """A fact in its envelope, as written to the log."""

    specversion: SpecVersion = SPEC_VERSION
    id: EventId
    source: str
    """The service that wrote it, with its node: `executor/local`."""
    type: Tag
    time: Time
    sandboxid: str
    node: str | None = None
    correlationid: str | None = None
    """The command that asked."""
    causationid: str | None = None
    datacontenttype: str = "application/json"
    data: Fact


class EventHead(Struct, frozen=True, kw_only=True):
    """An event whose data is still raw: step one of decoding, safe for tags that this version does not know."""

    specversion: SpecVersion = SPEC_VERSION
    id: EventId
    source: str
    type: Tag
    time: Time
    sandboxid: str
    node: str | None = None
    correlationid: str | None = None
    causationid: str | None = None
    data: msgspec.Raw


class Command(Struct, frozen=True, kw_only=True):
    """An order in its envelope. `id` is chosen by whoever asks, and is the message's `Nats-Msg-Id`."""

    specversion: SpecVersion = SPEC_VERSION
    id: Token
    source: str = "client"
    type: Tag
    time: Time | None = None
    sandboxid: SandboxId | None = None
    node: str | None = None
    correlationid: str | None = None
    causationid: str | None = None
    datacontenttype: str = "application/json"
    data: Order


class CommandHead(Struct, frozen=True, kw_only=True):
    specversion: SpecVersion = SPEC_VERSION
    id: Token
    source: Annotated[str, Meta(max_length=200)] = "client"
    type: Tag
    time: Time | None = None
    sandboxid: SandboxId | None = None
    node: str | None = None
    correlationid: str | None = None
    causationid: str | None = None
    data: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


JsonObject = dict[str, Any]
"""Free JSON that we carry and never look into: a tool's arguments, a runtime's options."""
