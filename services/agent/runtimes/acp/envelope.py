"""JSON-RPC 2.0, one object on a line."""

from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

Id = int | str
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
SHOWN = 200
ID_CHARACTERS = 200


class Broken(Exception):
    """The agent does not keep to the protocol; the text says how."""


class Stray(Exception):
    """A line that is no message at all."""


class Wrong(Struct, frozen=True):
    code: int = 0
    message: str = ""
    data: Any = None


class Request(NamedTuple):
    id: Id
    method: str
    params: bytes


class Notice(NamedTuple):
    method: str
    params: bytes


class Answer(NamedTuple):
    id: Id
    result: bytes
    error: Wrong | None


Message = Request | Notice | Answer


class _Line(Struct):
    jsonrpc: Any = None
    id: Id | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"null")
    error: Wrong | None = None


def shown(text: str | bytes) -> str:
    """The beginning of something hostile, for people."""
    whole = text.decode(errors="replace") if isinstance(text, bytes) else text
    printable = "".join(character if character.isprintable() else "·" for character in whole[: SHOWN + 1])
    return printable if len(printable) <= SHOWN else printable[:SHOWN] + "…"


def decode(line: bytes) -> Message:
    """Raises `Stray` for a line that has nothing to do with JSON-RPC, `Broken` for one that is none of its messages."""
    if not line.lstrip().startswith(b"{"):
        raise Stray(shown(line))
    try:
        message = msgspec.json.decode(line, type=_Line)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Broken(f"a message that is not JSON-RPC: {error}: {shown(line)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Stray(shown(line)) from error
    return _sorted(message, line)


def _sorted(message: _Line, line: bytes) -> Message:
    own = message.id
    if isinstance(own, str) and len(own) > ID_CHARACTERS:
        raise Broken(f"an id of {len(own)} characters")
    if message.method is not UNSET:
        if own is UNSET:
            return Notice(message.method, bytes(message.params))
        if own is not None:
            return Request(own, message.method, bytes(message.params))
    elif own is None and message.error is not None:
        raise Broken(f"it could not read what was sent to it: {shown(message.error.message)}")
    elif own is not UNSET and own is not None:
        return Answer(own, bytes(message.result), message.error)
    if message.jsonrpc is None and own is UNSET:
        # Programs print their own JSON, too.
        raise Stray(shown(line))
    raise Broken(f"a message that is no request, no notification and no answer: {shown(line)}")


def request(own: Id, method: str, params: Any) -> Request:
    return Request(own, method, msgspec.json.encode(params))


def encode(message: Request | Notice) -> bytes:
    """As a line, without its line break."""
    own = {"id": message.id} if isinstance(message, Request) else {}
    return _line(**own, method=message.method, params=Raw(message.params))


def notice(method: str, params: Any) -> Notice:
    return Notice(method, msgspec.json.encode(params))


def answer(own: Id, result: Any) -> bytes:
    return _line(id=own, result=result)


def refusal(own: Id, wrong: Wrong) -> bytes:
    return _line(id=own, error=wrong)


def _line(**fields: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **fields})
