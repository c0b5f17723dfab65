"""JSON in and out, strictly: a string is never taken for a number, an error names the field."""

from typing import Any, NamedTuple

import msgspec

from contracts import subjects
from contracts.errors import Invalid
from contracts.message import CommandHead, EventHead, Fact, Order
from contracts.registry import COMMANDS, event_type

_encoder = msgspec.json.Encoder()
_event_heads = msgspec.json.Decoder(EventHead)
_command_heads = msgspec.json.Decoder(CommandHead)


class DecodedCommand(NamedTuple):
    head: CommandHead
    order: Order


def encode(message: Any) -> bytes:
    """Raises `Invalid` for text that is not Unicode, such as an argument of the command line that is not UTF-8."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError as error:
        raise Invalid(f"text that is not UTF-8 cannot be sent: {error.object[:80]!r}") from error


_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    return _decoders[kind]


def decode(raw: bytes | msgspec.Raw, kind: type[Any]) -> Any:
    """Raises `Invalid` with the path of the first bad field."""
    try:
        return _decoder(kind).decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"not a valid {getattr(kind, '__name__', 'message')}: {error}") from error


def decode_head(raw: bytes) -> EventHead:
    """Step one: the envelope. Raises `Invalid`."""
    try:
        return _event_heads.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"not an event: {error}") from error


def decode_fact(head: EventHead) -> Fact | None:
    """Step two: the data by its tag; None for a tag that this version does not know. Raises `Invalid`."""
    kind = event_type(head.type)
    return None if kind is None else decode(head.data, kind)


def decode_command(subject: str, raw: bytes) -> DecodedCommand:
    """A command, checked against the subject that it came on. Raises `Invalid`."""
    address = subjects.parse_command(subject)
    try:
        head = _command_heads.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"not a command: {error}") from error
    if head.type != f"{address.family}.{address.verb}":
        raise Invalid(f"type {head.type!r} came on a subject for {address.family}.{address.verb}")
    if head.sandboxid not in (None, address.sandbox):
        raise Invalid(f"sandboxid {head.sandboxid!r} came on a subject for {address.sandbox!r}")
    return DecodedCommand(head, decode(head.data, COMMANDS[head.type]))
