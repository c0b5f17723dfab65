"""Requests to services, by request and reply."""

import asyncio
from typing import Any

import msgspec

from contracts import codec
from contracts.errors import from_failure
from contracts.queries import Reply
from infra.asking import trace_headers
from infra.bus.connection import Bus
from infra.bus.errors import NobodyAnswers

QUERY_TIMEOUT_S = 10.0
ASK_AGAIN_S = 0.2


async def ask(
    bus: Bus,
    subject: str,
    question: msgspec.Struct,
    kind: type[Any],
    *,
    timeout: float = QUERY_TIMEOUT_S,
    patience: float = QUERY_TIMEOUT_S,
) -> Any:
    """The answer, as a `kind`. Asks again while nobody answers: a service that is being started again will.

    For `patience` seconds; `timeout` is for the answer of somebody who is there.

    Raises the failure when that is the answer, `NobodyAnswers` and `Unavailable` when none comes.
    """
    payload = codec.encode(question)
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        try:
            raw = await bus.request(subject, payload, timeout=timeout, headers=trace_headers())
        except NobodyAnswers:
            if asyncio.get_running_loop().time() >= deadline:
                raise
            await asyncio.sleep(ASK_AGAIN_S)
        else:
            break
    reply: Reply = codec.decode(raw.data, Reply)
    if reply.failure is not None:
        raise from_failure(reply.failure)
    return codec.decode(reply.result, kind)
