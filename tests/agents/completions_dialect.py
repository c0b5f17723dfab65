"""A scripted answer as OpenAI's chat completions give it, streamed or whole."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

from tests.agents.script import Reply, Said, ToolUse

FIELDS = {"text": "content", "thinking": "reasoning_content"}


def error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message, "code": kind}}


async def whole(reply: Reply, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for block in reply.blocks:
        if isinstance(block, ToolUse):
            message.setdefault("tool_calls", []).append(_call(block))
            continue
        for piece in block.pieces:
            if isinstance(piece, asyncio.Event):
                await piece.wait()
        message[FIELDS[block.kind]] = (message.get(FIELDS[block.kind]) or "") + block.whole
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return {**_head("chat.completion", model), "choices": [choice], "usage": _usage(reply)}


async def streamed(reply: Reply, model: str) -> AsyncIterator[bytes]:
    head = _head("chat.completion.chunk", model)
    yield _chunk(head, {"role": "assistant", "content": ""})
    calls = 0
    for block in reply.blocks:
        if isinstance(block, ToolUse):
            yield _chunk(head, {"tool_calls": [{"index": calls, **_call(block)}]})
            calls += 1
            continue
        async for chunk in _said(head, block):
            yield chunk
    if reply.cut:
        return
    yield _chunk(head, {}, _finish_reason(reply))
    yield f"data: {json.dumps({**head, 'choices': [], 'usage': _usage(reply)})}\n\n".encode()
    yield b"data: [DONE]\n\n"


async def _said(head: dict[str, Any], block: Said) -> AsyncIterator[bytes]:
    for piece in block.pieces:
        if isinstance(piece, asyncio.Event):
            await piece.wait()
        else:
            yield _chunk(head, {FIELDS[block.kind]: piece})


def _call(block: ToolUse) -> dict[str, Any]:
    function = {"name": block.name, "arguments": json.dumps(block.input)}
    return {"id": block.id, "type": "function", "function": function}


def _head(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": kind, "created": 1, "model": model}


def _finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.wants_tools else "stop"


def _usage(reply: Reply) -> dict[str, int]:
    total = reply.input_tokens + reply.output_tokens
    return {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens, "total_tokens": total}


def _chunk(head: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode()
