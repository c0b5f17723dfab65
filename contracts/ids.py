"""Identifiers. Each is one NATS subject token and one safe file name, so nothing ever needs quoting."""

import re
from typing import Annotated

from msgspec import Meta

END = r"$(?!\n)"
"""End of a pattern. A lone `$` lets a last line break through in Python; `\\Z` is unknown to JSON Schema."""

TOKEN_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}" + END
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")

Token = Annotated[str, Meta(pattern=TOKEN_PATTERN, min_length=1, max_length=64)]

SandboxId = Token
NodeId = Token
ExecId = Token
"""A command's execution. It is the id of the `command.run` that asked for it."""

CommandId = Token
EventId = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+" + END)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


def is_token(text: str) -> bool:
    return _TOKEN.match(text) is not None
