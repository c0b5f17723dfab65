"""What came of a call, before it is put into the protocol's words."""

from typing import NamedTuple

from msgspec import Struct


class Image(NamedTuple):
    data: str
    """In base64."""
    mime: str


class Outcome(NamedTuple):
    answer: Struct
    texts: list[str]
    image: Image | None = None
