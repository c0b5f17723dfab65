"""What a client is told when the proxy itself answers."""

import re
from http import HTTPStatus

from infra.proxy.names import authority
from infra.proxy.port import Refused, Wanted

_WORDS = {403: "denied", 404: "not found", 429: "denied", 502: "not reached", 503: "denied", 504: "not reached"}
RAW_CHARACTERS = 200
_USER = re.compile(rb"(//|\s)[^/\s]*@")


class Failed(Exception):
    """It was let through, and something went wrong on the way. The reason is told to the client."""

    def __init__(self, reason: str, status: int = 502) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


def answer(refusal: Refused | Failed, wanted: Wanted | None, *, close: bool, body: bool = True) -> bytes:
    """Head and text; `body` is False for the answer to a HEAD."""
    text = _text(refusal, wanted).encode()
    lines = [
        f"HTTP/1.1 {refusal.status} {_phrase(refusal.status)}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(text)}",
        "Cache-Control: no-store",
        *(["Retry-After: 1"] if refusal.status in (429, 503) else []),
        f"Connection: {'close' if close else 'keep-alive'}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (text if body else b"")


def _text(refusal: Refused | Failed, wanted: Wanted | None) -> str:
    words = _WORDS.get(refusal.status, "refused")
    where = f"{authority(wanted.host, wanted.port, None)} " if wanted is not None else ""
    hint = refusal.hint if isinstance(refusal, Refused) else ""
    return f"cloche: {where}{words}: {refusal.reason}\n" + (f"{hint}\n" if hint else "")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"


def printable(raw: bytes) -> str:
    """The first line of a request for the record: no query and no user name, which may hold what is secret."""
    line = raw[: 4 * RAW_CHARACTERS].split(b"\n")[0].split(b"?")[0]
    text = _USER.sub(rb"\1", line).decode("latin-1")
    return text.encode("unicode_escape").decode()[:RAW_CHARACTERS]
