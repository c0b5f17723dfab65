"""Answers questions: which part of the service knows what."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from contracts import codec
from contracts.errors import ClocheError, Invalid
from contracts.queries import QUERIES, Reply
from infra.bus import desk

Answers = Mapping[str, Callable[[Any], Awaitable[msgspec.Struct]]]
"""By the verb of `cloche.rpc.state.<verb>`: takes its request, returns its answer, raises a `ClocheError`."""


class Historian:
    def __init__(self, *parts: Answers) -> None:
        self._answers = {verb: answer for part in parts for verb, answer in part.items()}

    @property
    def verbs(self) -> Iterable[str]:
        return self._answers.keys()

    async def answer(self, verb: str, raw: bytes) -> bytes:
        """Never raises for a bad question: the failure is the answer."""
        try:
            if verb not in self._answers:
                raise Invalid(f"unknown query {verb[:80]!r}: one of {', '.join(self._answers)}")
            result = await self._answers[verb](codec.decode(raw or b"{}", QUERIES[verb]))
            return codec.encode(Reply(result=msgspec.Raw(codec.encode(result))))
        except ClocheError as error:
            return desk.failed(error)
