"""What the program inside is told, line by line. Each line has something of its own in it, so it is said once."""

import json
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from contracts.message import JsonObject
from services.agent.transcripts import Document

RESTORED_AT_ONCE = 1 << 20
"""Bytes of files in one line, about."""


class Said(Struct):
    """What it was told before this service came."""

    started: bool = False
    turns: set[int] = msgspec.field(default_factory=set)
    answers: set[int] = msgspec.field(default_factory=set)
    verdicts: set[tuple[int, int]] = msgspec.field(default_factory=set)
    interrupts: set[str] = msgspec.field(default_factory=set)


class _Order(Struct):
    order: str
    turn: int = 0
    ask: int = 0
    call: int = 0
    id: str = ""


def said(lines: Iterable[bytes]) -> Said:
    found = Said()
    for line in lines:
        try:
            order = msgspec.json.decode(line, type=_Order)
        except msgspec.MsgspecError:
            # Somebody else has typed something into it.
            continue
        match order.order:
            case "start":
                found.started = True
            case "turn":
                found.turns.add(order.turn)
            case "go":
                found.answers.add(order.ask)
            case "verdict":
                found.verdicts.add((order.ask, order.call))
            case "interrupt":
                found.interrupts.add(order.id)
    return found


def restore(documents: Iterable[Document]) -> Iterator[bytes]:
    files: dict[str, str] = {}
    size = 0
    for document in documents:
        files[document.path] = document.data.decode("utf-8", "replace")
        size += len(document.data)
        if size >= RESTORED_AT_ONCE:
            yield _line("restore", files=files)
            files, size = {}, 0
    if files:
        yield _line("restore", files=files)


def start(session: str, workspace: str, *, llm: JsonObject, max_steps: int, confirm: bool) -> bytes:
    return _line("start", session=session, workspace=workspace, llm=llm, max_steps=max_steps, confirm=confirm)


def turn(number: int, words: Sequence[str]) -> bytes:
    return _line("turn", turn=number, say=list(words))


def go(ask: int, words: Sequence[str]) -> bytes:
    return _line("go", ask=ask, say=list(words))


def verdict(ask: int, call: int, denied: str | None) -> bytes:
    return _line("verdict", ask=ask, call=call, denied=denied)


def interrupt(order: str) -> bytes:
    return _line("interrupt", id=order)


def stop() -> bytes:
    return _line("stop")


def _line(order: str, **fields: object) -> bytes:
    return json.dumps({"order": order, **fields}).encode()
