"""Commands that no consumer will ever take: unknown node, unknown family. They must not lie in silence."""

import logging
from typing import Any

from contracts import subjects
from contracts.errors import Failure, Invalid, Unavailable
from contracts.streams import COMMANDS_STREAM
from infra import clock
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.errors import ApiError
from infra.bus.page import Entry
from infra.bus.publisher import append
from infra.bus.settle import DeadLetters

logger = logging.getLogger(__name__)

MIN_AGE_S = 2.0
"""Younger ones are left alone: their node may just be joining."""


async def sweep(bus: Bus, dead_letter: DeadLetters, *, min_age_s: float = MIN_AGE_S) -> int:
    """Write a dead letter for each command that no durable consumer covers, and delete it. Returns how many.

    One request when the queue is empty. `bus` must be the spawner's: nobody else may delete a command.
    A crash in between writes the same letter again under the same id. Raises `Unavailable`.
    """
    if not (await bus.api(f"STREAM.INFO.{COMMANDS_STREAM}"))["state"]["messages"]:
        return 0
    waiting = await _subjects(bus)
    covered = await _filters(bus)
    strays = [subject for subject in waiting if not any(matches(subject, each) for each in covered)]
    filters = sorted({_filter_for(subject) for subject in strays})
    return sum([await _sweep_subject(bus, each, covered, dead_letter, min_age_s) for each in filters])


def _filter_for(subject: str) -> str:
    """A subject that is no text, or looks like a filter, cannot be asked for by its name: everything is looked at."""
    odd = "\ufffd" in subject or {"*", ">"} & set(subject.split("."))
    return subjects.COMMANDS if odd else subject


async def _subjects(bus: Bus) -> list[str]:
    info = await bus.api(f"STREAM.INFO.{COMMANDS_STREAM}", {"subjects_filter": ">"})
    return list(info["state"].get("subjects") or {})


async def _filters(bus: Bus) -> list[str]:
    """Of every consumer. Raises `Unavailable` where some did not answer, as those of a cluster between two leaders."""
    filters: list[str] = []
    seen = 0
    while True:
        answer = await bus.api(f"CONSUMER.LIST.{COMMANDS_STREAM}", {"offset": seen})
        for info in answer.get("consumers") or []:
            filters += _of(info["config"])
        seen += len(answer.get("consumers") or [])
        if answer.get("missing"):
            raise Unavailable(f"{len(answer['missing'])} consumers do not answer")
        if seen >= answer["total"]:
            return filters
        if not answer.get("consumers"):
            raise Unavailable(f"{seen} of {answer['total']} consumers answer")


def _of(config: dict[str, Any]) -> list[str]:
    return config.get("filter_subjects") or [config.get("filter_subject") or ">"]


def matches(subject: str, filter_: str) -> bool:
    tokens, wanted = subject.split("."), filter_.split(".")
    for at, want in enumerate(wanted):
        if want == ">":
            return len(tokens) > at
        if at >= len(tokens) or want not in ("*", tokens[at]):
            return False
    return len(tokens) == len(wanted)


async def _sweep_subject(bus: Bus, filter_: str, covered: list[str], dead_letter: DeadLetters, min_age_s: float) -> int:
    swept, start = 0, 1
    while True:
        found = await page.fetch(bus, filter_, start, stream=COMMANDS_STREAM)
        for entry in found.entries:
            if any(matches(entry.subject, each) for each in covered):
                continue
            if (clock.now() - entry.time).total_seconds() >= min_age_s:
                await _bury(bus, entry, dead_letter)
                swept += 1
        if not found.pending or not found.entries:
            return swept
        start = found.entries[-1].seq + 1


async def _bury(bus: Bus, entry: Entry, dead_letter: DeadLetters) -> None:
    failure: Failure = Invalid(f"nobody takes {entry.subject[:200]!r}: no such node or family").failure()
    subject, payload, letter_id = dead_letter(entry.subject, entry.data, failure, delivered=0, sequence=entry.seq)
    await append(bus, subject, payload, letter_id)
    try:
        await bus.api(f"STREAM.MSG.DELETE.{COMMANDS_STREAM}", {"seq": entry.seq, "no_erase": True})
    except ApiError as error:
        logger.info("command %d is already gone: %s", entry.seq, error.message)
