"""The lines of an export: a session, or a whole log, as a file that needs no Cloche to be read.

The first line is a `Header`, then one for each stored message in order of sequence, then the contents that they name,
in pieces, then an `End`: a file without it was cut off. Payloads stand in their line as they stood in the log, byte for
byte; what could not stand in a line of JSON is in base64.
"""

import base64
import binascii
import re
from functools import lru_cache

import msgspec
from msgspec import UNSET, Struct, UnsetType

from contracts.chain import Message
from contracts.errors import Invalid
from contracts.ids import is_token
from contracts.message import Time
from contracts.streams import MAX_MESSAGE_BYTES
from contracts.subjects import NO_SANDBOX, parse_event

VERSION = 1
PIECE_BYTES = 256 * 1024
"""Of a content, in one line at most."""
MOST_LINE_BYTES = 2 * MAX_MESSAGE_BYTES
"""No line is longer: a message in base64, and what stands around it."""
MOST_SEQUENCE = 2**53

_PART = re.compile(r"[A-Za-z0-9_-]{1,200}\Z")
_ID = re.compile(r"[\x21-\x7e]{0,300}\Z")
_STORED_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z\Z", re.ASCII)
_BLOB = re.compile(r"[0-9a-f]{64}\Z")


class Header(Struct, frozen=True, kw_only=True):
    cloche_export: int = VERSION
    log: str = ""
    """The name of the log that it is from; empty where nothing told."""
    sandbox: str | None = None
    """None = the whole log."""
    first_sequence: int
    last_sequence: int
    exported_at: Time
    continued: bool = False
    """One of several files: contents that an earlier one has are not in it again."""


class Piece(Struct, frozen=True, kw_only=True):
    """Of a content, named by its sha256. Its pieces follow each other."""

    blob: str
    offset: int
    data_base64: bytes
    last: bool


class End(Struct, frozen=True, kw_only=True):
    end: bool = True
    events: int
    blobs: int


Line = Header | Message | Piece | End


class _Any(Struct, frozen=True, kw_only=True):
    """Every field that a line may have."""

    sequence: int | UnsetType = UNSET
    subject: str = ""
    id: str = ""
    stored_at: str = ""
    event: msgspec.Raw | UnsetType = UNSET
    payload_base64: bytes | UnsetType = UNSET
    blob: str | UnsetType = UNSET
    offset: int = -1
    data_base64: bytes = b""
    last: bool = False
    cloche_export: int | UnsetType = UNSET
    end: bool | UnsetType = UNSET


_lines = msgspec.json.Decoder(_Any)
_headers = msgspec.json.Decoder(Header)
_ends = msgspec.json.Decoder(End)
_encoder = msgspec.json.Encoder()


def decode_line(raw: bytes) -> Line:
    """One line, without its line break. The file may be from anybody, so nothing in it is taken on trust.

    Raises `Invalid` for what is no line of an export, or of one that this version cannot read.
    """
    try:
        line = _lines.decode(raw)
        if line.sequence is not UNSET:
            return _message(line.sequence, line)
        if line.blob is not UNSET:
            return _piece(line.blob, line)
        if line.cloche_export is not UNSET:
            return _header(_headers.decode(raw))
        if line.end is not UNSET:
            return _ends.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, binascii.Error) as error:
        raise Invalid(f"not a line of an export: {error}") from error
    raise Invalid("not a line of an export: it is neither a header, an event, a content nor the end")


def _header(header: Header) -> Header:
    if header.cloche_export != VERSION:
        raise Invalid(f"an export of version {header.cloche_export}: this Cloche reads version {VERSION}")
    if header.log and not is_token(header.log):
        raise Invalid("the log's name is not a name")
    if header.sandbox is not None and not is_token(header.sandbox):
        raise Invalid(f"{header.sandbox[:80]!r} is not a sandbox id")
    return header


def _message(sequence: int, line: _Any) -> Message:
    if not 0 < sequence <= MOST_SEQUENCE:
        raise Invalid(f"{sequence} is not a sequence")
    _check_subject(line.subject)
    if not _ID.match(line.id):
        raise Invalid(f"sequence {sequence}: {line.id[:80]!r} is not an id")
    if not _STORED_AT.match(line.stored_at):
        raise Invalid(f"sequence {sequence}: {line.stored_at[:80]!r} is not a time of the server")
    payload = line.event if line.event is not UNSET else line.payload_base64
    if payload is UNSET:
        raise Invalid(f"sequence {sequence} has no event")
    if len(payload := bytes(payload)) > MAX_MESSAGE_BYTES:
        raise Invalid(f"sequence {sequence} has {len(payload)} bytes: more than a message may have")
    return Message(sequence, line.subject, line.id, line.stored_at, payload)


@lru_cache(maxsize=4096)
def _check_subject(subject: str) -> None:
    """A log has few subjects for its many events."""
    parsed = parse_event(subject)
    if parsed.sandbox != NO_SANDBOX and not is_token(parsed.sandbox):
        raise Invalid(f"{subject[:200]!r} names no sandbox")
    if not all(_PART.match(part) for part in subject.split(".")):
        raise Invalid(f"{subject[:200]!r} is not the subject of an event")


def _piece(blob: str, line: _Any) -> Piece:
    if not _BLOB.match(blob):
        raise Invalid(f"{blob[:80]!r} is not the name of a content: a sha256 in hexadecimal")
    if len(line.data_base64) > PIECE_BYTES or not 0 <= line.offset <= MOST_SEQUENCE:
        raise Invalid(f"a piece of {blob} is larger than {PIECE_BYTES} bytes, or nowhere")
    return Piece(blob=blob, offset=line.offset, data_base64=line.data_base64, last=line.last)


def encode_line(line: Header | Piece | End) -> bytes:
    """With its line break."""
    return _encoder.encode(line) + b"\n"


def encode_message(message: Message) -> bytes:
    """With its line break. The payload is in it as it is, wherever it can be."""
    head = b'{"sequence":%d,"subject":%b,"id":%b,"stored_at":%b,' % (
        message.sequence,
        _encoder.encode(message.subject),
        _encoder.encode(message.id),
        _encoder.encode(message.stored_at),
    )
    if _stands_in_a_line(message.payload):
        return b'%b"event":%b}\n' % (head, message.payload)
    return b'%b"payload_base64":"%b"}\n' % (head, base64.b64encode(message.payload))


_json = msgspec.json.Decoder(msgspec.Raw)


def _stands_in_a_line(payload: bytes) -> bool:
    """Whether it is one JSON value, without anything around it that a reader would not give back."""
    if not payload.startswith(b"{") or not payload.endswith(b"}") or b"\n" in payload or b"\r" in payload:
        return False
    try:
        payload.decode()
        _json.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
