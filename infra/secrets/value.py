"""What can be a credential at all: one line that a header field can hold."""

import re

from contracts.errors import Invalid

MAX_BYTES = 16 * 1024

_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?\Z")


def check_value(name: str, raw: bytes) -> str:
    """The value without its line break. Raises `Invalid`, never with any of it."""
    text = raw.decode("latin-1")
    text = text.removesuffix("\n").removesuffix("\r")
    if not _VALUE.match(text) or len(raw) > MAX_BYTES:
        raise Invalid(f"secret {name!r} is not one line of printable ASCII of at most {MAX_BYTES} bytes")
    return text
