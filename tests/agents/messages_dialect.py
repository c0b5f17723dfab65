"""A scripted answer as the Anthropic Messages API gives it, streamed or whole."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

from tests.agents.script import Piece, Reply, Said, ToolUse


def error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


async def whole(reply: Reply, model: str) -> dict[str, Any]:
    for block in reply.blocks:
        for piece in block.pieces if isinstance(block, Said) else ():
            if isinstance(piece, asyncio.Event):
                await piece.wait()
    return {
        **_message(model),
        "content": [_content(block) for block in reply.blocks],
        "stop_reason": _stop_reason(reply),
        "usage": {**_usage(reply), "output_tokens": reply.output_tokens},
    }


async def streamed(reply: Reply, model: str) -> AsyncIterator[bytes]:
    yield _event("message_start", message={**_message(model), "usage": {**_usage(reply), "output_tokens": 1}})
    yield _event("ping")
    for index, block in enumerate(reply.blocks):
        async for event in _block(index, block):
            yield event
    if reply.cut:
        return
    usage = {"output_tokens": reply.output_tokens}
    delta = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage=usage)
    yield _event("message_stop")


async def _block(index: int, block: Said | ToolUse) -> AsyncIterator[bytes]:
    yield _event("content_block_start", index=index, content_block=_begun(block))
    if isinstance(block, ToolUse):
        for piece in _cut(json.dumps(block.input)):
            yield _delta(index, type="input_json_delta", partial_json=piece)
    else:
        async for event in _said(index, block.kind, block.pieces):
            yield event
        if block.kind == "thinking":
            yield _delta(index, type="signature_delta", signature="c2lnbmVk")
    yield _event("content_block_stop", index=index)


async def _said(index: int, kind: str, pieces: tuple[Piece, ...]) -> AsyncIterator[bytes]:
    for piece in pieces:
        if isinstance(piece, asyncio.Event):
            await piece.wait()
        else:
            yield _delta(index, type=f"{kind}_delta", **{kind: piece})


def _begun(block: Said | ToolUse) -> dict[str, Any]:
    if isinstance(block, ToolUse):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
    return {"type": block.kind, block.kind: "", **({"signature": ""} if block.kind == "thinking" else {})}


def _content(block: Said | ToolUse) -> dict[str, Any]:
    if isinstance(block, ToolUse):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.input)}
    signed = {"signature": "c2lnbmVk"} if block.kind == "thinking" else {}
    return {"type": block.kind, block.kind: block.whole, **signed}


def _message(model: str) -> dict[str, Any]:
    name = f"msg_{secrets.token_hex(12)}"
    unfinished: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
    return {"id": name, "model": model, "type": "message", "role": "assistant", **unfinished}


def _usage(reply: Reply) -> dict[str, int]:
    return {"input_tokens": reply.input_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def _stop_reason(reply: Reply) -> str:
    return "tool_use" if reply.wants_tools else "end_turn"


def _cut(word: str) -> tuple[str, str]:
    """In two, because clients must put the pieces of an input together again."""
    return word[: len(word) // 2], word[len(word) // 2 :]


def _delta(index: int, **delta: Any) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()
