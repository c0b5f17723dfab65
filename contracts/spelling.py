"""Names of files in JSON. A name is bytes; JSON is text."""

import base64
from typing import NamedTuple

from contracts.errors import Invalid


class Spelled(NamedTuple):
    text: str
    """The name itself where it is UTF-8; for people only where it is not."""
    encoded: str | None
    """base64 of a name that is not UTF-8."""


def spell(raw: bytes) -> Spelled:
    try:
        return Spelled(raw.decode(), None)
    except UnicodeDecodeError:
        return Spelled(raw.decode("utf-8", "backslashreplace"), base64.b64encode(raw).decode())


def unspell(text: str, encoded: str | None) -> bytes:
    """The name that was spelled. Raises `Invalid` for what is not base64, and for text that is not Unicode."""
    try:
        return text.encode() if encoded is None else base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise Invalid(f"{(encoded or text)[:80]!r} is not the name of a file: {error}") from error


def parts(path: bytes) -> list[bytes]:
    """The names on the way to a path that is relative to some directory.

    Raises `Invalid` for what could lead anywhere but beneath it: `.`, `..`, empty names, NUL, an absolute path.
    """
    names = path.split(b"/")
    if b"\x00" in path or any(name in (b"", b".", b"..") for name in names):
        raise Invalid(f"{spell(path).text[:200]!r} does not lie beneath the workspace")
    return names
