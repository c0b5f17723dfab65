"""Looks whether the read model is what the log says, and makes it so: now and then, and from nothing when asked."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from contracts import subjects
from contracts.errors import ClocheError, Invalid, Unavailable
from contracts.state import SandboxState
from contracts.streams import LOG_STREAM
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.reader import Bounds
from services.replay.mirror import Mirror, read_state
from services.replay.projection import Projection
from services.replay.refolding import refold

logger = logging.getLogger(__name__)

FEW = 10
IN_A_ROW = 50
"""States that are read before everybody else has their turn."""
NAMED = 20
"""Sandboxes in one complaint."""
Told = Mapping[str, SandboxState | None]
"""What the bucket says of each sandbox; None where that cannot be read."""


class Healing:
    def __init__(self, bus: Bus, projection: Projection, mirror: Mirror, changed: asyncio.Event) -> None:
        self._bus = bus
        self._projection = projection
        self._mirror = mirror
        self._changed = changed
        self._hopeless: set[str] = set()
        """Of which the log has a beginning that this version cannot read."""
        self._doubted = asyncio.Event()

    def doubt(self) -> None:
        """What was folded may not be what the log says any more: `run` folds it again."""
        self._doubted.set()

    async def run(self, every_s: float) -> None:
        """For ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await self._doubted.wait()
            try:
                await self._tend()
            except Unavailable:
                await self._mirror.notice_loss()
            except ClocheError as error:
                logger.error("the read model was not looked at: %s", error.message)  # noqa: TRY400

    async def _tend(self) -> None:
        if not self._doubted.is_set():
            await self.look()
            return
        self._doubted.clear()
        changed = await self.rebuild()
        logger.warning("the log is not what it was: the read model was folded again, and %d changed", len(changed))

    async def look(self) -> list[str]:
        """What is not as it should be is made so. Returns which sandboxes that was. Raises `Unavailable`."""
        async with self._mirror.writing:
            told, bounds = await self._told()
            stale = [state.sandbox for state in self._projection.all() if self._is_stale(state, told)]
            doubtful = [sandbox for sandbox, each in told.items() if self._is_doubtful(sandbox, each)]
        healed = {sandbox for sandbox in stale if await self._mirror.repair(sandbox, bounds.last)}
        suspects = {*doubtful, *(await self._unknown())}
        if len(suspects) > FEW:
            # Reading all of the log once is less than reading it for each.
            healed.update(await self.rebuild())
            self._hopeless.update(each for each in suspects if self._projection.get(each) is None)
            suspects.clear()
        for sandbox in suspects:
            if await self._heal(sandbox, told):
                healed.add(sandbox)
        if healed:
            names = ", ".join(sorted(healed)[:NAMED])
            logger.warning("the read model of %s was not what the log says, and was made again", names)
        return sorted(healed)

    async def rebuild(self, on_progress: Callable[[int, int], None] = lambda _done, _whole: None) -> list[str]:
        """Everything from nothing. Returns the sandboxes whose read model was not what the log says.

        Raises `Unavailable`.
        """
        async with self._mirror.writing:
            told, bounds = await self._told()
            wrong = {state.sandbox for state in self._projection.all() if self._is_stale(state, told)}
        await refold(self._bus, self._projection, self._taker(told, wrong), on_progress=on_progress)
        self._changed.set()
        for sandbox in {*told, *(state.sandbox for state in self._projection.all())}:
            # Otherwise it is about to be written.
            if not self._projection.is_dirty(sandbox) and await self._mirror.repair(sandbox, bounds.last):
                wrong.add(sandbox)
        return sorted(wrong)

    async def _told(self) -> tuple[dict[str, SandboxState | None], Bounds]:
        """Raises `Unavailable`."""
        raw = await self._mirror.told()
        bounds = await reader.bounds(self._bus)
        told: dict[str, SandboxState | None] = {}
        for sandbox, value in raw.items():
            told[sandbox] = _read(sandbox, value, bounds.last)
            if len(told) % IN_A_ROW == 0:
                await asyncio.sleep(0)
        return told, bounds

    def _is_stale(self, state: SandboxState, told: Told) -> bool:
        """The bucket has nothing of it, or nothing that can be read, or less: and nobody is about to write it."""
        if self._projection.is_dirty(state.sandbox):
            return False
        other = told.get(state.sandbox)
        return other is None or other.applied_sequence < state.applied_sequence

    def _is_doubtful(self, sandbox: str, told: SandboxState | None) -> bool:
        """The bucket has something else of it: the log decides."""
        known = self._projection.get(sandbox)
        if known is None:
            return True
        return told is not None and told.applied_sequence == known.applied_sequence and told != known

    async def _unknown(self) -> list[str]:
        """Sandboxes that the log tells the beginning of, and the read model nothing. Raises `Unavailable`."""
        body = {"subjects_filter": subjects.events_of(family="sandbox", kind="creating")[0]}
        info = await self._bus.api(f"STREAM.INFO.{LOG_STREAM}", body)
        named = {subjects.sandbox_of(subject) for subject in info["state"].get("subjects") or {}}
        missing = [each for each in named - self._hopeless if self._projection.get(each) is None]
        return [each for each in missing if await self._has_passed(each)]

    async def _has_passed(self, sandbox: str) -> bool:
        """Whether whoever follows the log has been where the sandbox begins."""
        begun = await reader.first(self._bus, subjects.event(sandbox, "sandbox.creating"))
        return begun is not None and begun.seq <= self._projection.applied

    async def _heal(self, sandbox: str, told: Told) -> bool:
        changed: set[str] = set()
        await refold(self._bus, self._projection, self._taker(told, changed, sandbox), sandbox=sandbox)
        if self._projection.get(sandbox) is None and sandbox not in told:
            self._hopeless.add(sandbox)
        self._changed.set()
        last = (await reader.bounds(self._bus)).last
        return await self._mirror.repair(sandbox, last) or bool(changed)

    def _taker(self, told: Told, changed: set[str], only: str | None = None) -> Callable[[Projection, Bounds], None]:
        def take(fresh: Projection, bounds: Bounds) -> None:
            known = (state.sandbox for state in (*self._projection.all(), *fresh.all()))
            for sandbox in {*told, *known} if only is None else {only}:
                state = rightful(fresh.get(sandbox), self._projection.get(sandbox) or told.get(sandbox), bounds)
                if self._projection.adopt(sandbox, state):
                    changed.add(sandbox)

        return take


def rightful(fresh: SandboxState | None, remembered: SandboxState | None, bounds: Bounds) -> SandboxState | None:
    """What is to be believed of a sandbox: the log, where it still has all of it, else what is remembered.

    A log that ends before what is remembered has lost something: then too.
    """
    if fresh is not None and (remembered is None or fresh.first_sequence >= bounds.first):
        return fresh
    if remembered is not None and (
        remembered.first_sequence < bounds.first or remembered.applied_sequence > bounds.last
    ):
        return remembered
    return fresh


def _read(sandbox: str, value: bytes, last: int) -> SandboxState | None:
    try:
        return read_state(sandbox, value, last)
    except Invalid:
        return None
