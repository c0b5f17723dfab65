"""What was said to a process by an earlier life of this service."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from services.agent.runtimes.acp import envelope
from services.agent.runtimes.acp.envelope import Broken, Id, Request, Stray

MARK = "cloche"


class Said(NamedTuple):
    requests: dict[Id, Request]
    answered: frozenset[int]
    """Numbers of the agent's requests that have their answer."""


class _Marked(Struct):
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")


def mark(number: int) -> dict[str, Any]:
    """Goes with an answer. Makes it another line than any other, and known again."""
    return {MARK: number}


def said(lines: Iterable[bytes]) -> Said:
    requests: dict[Id, Request] = {}
    answered: set[int] = set()
    for line in lines:
        try:
            message = envelope.decode(line)
        except (Broken, Stray):
            # A person can type into any command.
            continue
        if isinstance(message, Request):
            requests[message.id] = message
        elif isinstance(message, envelope.Answer):
            answered |= _marks(message)
    return Said(requests, frozenset(answered))


def _marks(answer: envelope.Answer) -> set[int]:
    found = answer.error.data if answer.error is not None else _meta(answer.result)
    number = found.get(MARK) if isinstance(found, dict) else None
    return {number} if isinstance(number, int) else set()


def _meta(result: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(result, type=_Marked).meta
    except msgspec.DecodeError:
        return {}
