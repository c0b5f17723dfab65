"""What a scripted model answers, turn by turn, in whichever dialect it is asked."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

INPUT_TOKENS = 1000
OUTPUT_TOKENS = 50

Piece = str | asyncio.Event
"""Of a stream: a word that is sent at once, or an event before which nothing more is sent."""


class Said(NamedTuple):
    """Text or thinking. Each piece is a delta of its own."""

    kind: str
    pieces: tuple[Piece, ...]

    @property
    def whole(self) -> str:
        return "".join(piece for piece in self.pieces if isinstance(piece, str))


class ToolUse(NamedTuple):
    id: str
    name: str
    input: Mapping[str, Any]


class Reply(NamedTuple):
    blocks: tuple[Said | ToolUse, ...]
    input_tokens: int = INPUT_TOKENS
    output_tokens: int = OUTPUT_TOKENS
    cut: bool = False
    """The connection ends in the middle: after the blocks, before the stream says that it is complete."""

    @property
    def wants_tools(self) -> bool:
        return any(isinstance(block, ToolUse) for block in self.blocks)


class Fails(NamedTuple):
    """An answer that is an error. Clients try 429, 500 and 529 again by themselves."""

    status: int
    kind: str = "api_error"
    message: str = "scripted to fail"
    retry_after: str | None = None


class Garbage(NamedTuple):
    """Bytes that are no answer, as a stream."""

    raw: bytes


Turn = Reply | Fails | Garbage


def text(*pieces: Piece) -> Said:
    return Said("text", pieces)


def thinking(*pieces: Piece) -> Said:
    return Said("thinking", pieces)


def tool(name: str, /, **given: Any) -> ToolUse:
    return ToolUse(f"toolu_{secrets.token_hex(12)}", name, given)


def reply(*blocks: Said | ToolUse | str, **more: Any) -> Reply:
    """A string is text in one piece."""
    return Reply(tuple(text(block) if isinstance(block, str) else block for block in blocks), **more)
