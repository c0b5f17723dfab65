"""Brings every checkpoint to each place outside, in order, whatever was down in between."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from contracts import chain
from contracts.errors import Unavailable
from infra.audit.record import Kept, Record
from infra.audit.targets import Target
from infra.durable import write_atomically
from infra.watching.threads import in_thread

logger = logging.getLogger(__name__)

FILE = "anchored.json"
BATCH = 200
RETRY_S = 30.0


class _Place(NamedTuple):
    generation: int
    offset: int


class _Batch(NamedTuple):
    lines: list[bytes]
    last: str
    """The hash of the last of them."""
    after: _Place


class Anchoring:
    """Remembers by its hash what each place was given last. A place that fails holds up nobody else."""

    def __init__(self, directory: Path, record: Record, targets: Sequence[Target], *, retry_s: float = RETRY_S) -> None:
        self._path = directory / FILE
        self._record = record
        self._targets = targets
        self._retry_s = retry_s
        self._news = [asyncio.Event() for _ in targets]
        self._given: dict[str, str] = {}
        self._places: dict[str, _Place] = {}
        self._writing = asyncio.Lock()
        self.troubles: dict[str, str] = {}
        """Why a place was not given its checkpoints."""

    def told(self) -> None:
        """There is another checkpoint."""
        for news in self._news:
            news.set()

    async def run_once(self) -> None:
        """Each is given what it lacks. Raises `Unavailable`, OSError."""
        self._given = await in_thread(_read, self._path)
        for target in self._targets:
            await self.catch_up(target)

    async def run(self) -> None:
        """For ever, until cancelled."""
        if not self._targets:
            return
        self._given = await in_thread(_read, self._path)
        async with asyncio.TaskGroup() as tasks:
            for target, news in zip(self._targets, self._news, strict=True):
                tasks.create_task(self._serve(target, news))

    async def _serve(self, target: Target, news: asyncio.Event) -> None:
        while True:
            news.clear()
            try:
                await self.catch_up(target)
                if self.troubles.pop(target.name, None):
                    logger.warning("checkpoints are anchored at %s again, with all that it missed", target.name)
            except (Unavailable, OSError) as error:
                if target.name not in self.troubles:
                    logger.error("checkpoints are not anchored at %s, later again: %s", target.name, error)  # noqa: TRY400
                self.troubles[target.name] = str(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._retry_s if target.name in self.troubles else None):
                    await news.wait()

    async def catch_up(self, target: Target) -> None:
        """Everything that it was not given yet. Raises `Unavailable`, OSError."""
        while (batch := await in_thread(self._following, target.name)) is not None:
            await target.append(batch.lines)
            self._given[target.name] = batch.last
            self._places[target.name] = batch.after
            async with self._writing:
                await in_thread(write_atomically, self._path, msgspec.json.encode(self._given))

    def _following(self, name: str) -> _Batch | None:
        with self._record.lock:
            return self._next(name)

    def _next(self, name: str) -> _Batch | None:
        generation = self._record.generation
        place = self._places.get(name)
        known = place is not None and place.generation == generation
        start = place.offset if place is not None and known else self._find(self._given.get(name))
        lines: list[bytes] = []
        last = ""
        for kept, end in self._record.lines(start):
            lines.append(_line(kept))
            last, start = kept.checkpoint.hash, end
            if len(lines) == BATCH:
                break
        return _Batch(lines, last, _Place(generation, start)) if lines else None

    def _find(self, given: str | None) -> int:
        """Where the line after it begins; the beginning, where it is not there any more."""
        if given is None:
            return 0
        found = 0
        for kept, end in self._record.lines():
            if kept.checkpoint.hash == given:
                found = end
        return found


def _line(kept: Kept) -> bytes:
    return msgspec.json.encode(chain.anchor(kept.checkpoint, kept.time))


def _read(path: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}
