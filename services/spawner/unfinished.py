"""What was begun and is not finished: gone on with when the spawner starts, and when a recovery is tried again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from contracts.errors import ClocheError
from contracts.state import Status
from infra.lifecycles import Lifecycles
from infra.observing.about import About, speaking_of

logger = logging.getLogger(__name__)

TRY_AGAIN_S = 5.0
LOOK_AGAIN_S = 60.0


class Unfinished:
    """Orders may be lost, or given up, between two steps; the log still says what was begun."""

    def __init__(self, tasks: asyncio.TaskGroup, node: str, lifecycles: Lifecycles) -> None:
        self._tasks = tasks
        self._node = node
        self._lifecycles = lifecycles
        self._waiting: dict[str, int] = {}
        self.go_on: Callable[[str], Awaitable[None]] | None = None
        """With one sandbox, if there is anything to go on with."""
        self.is_in_hand: Callable[[str], bool] | None = None
        """Whether somebody is at work on a sandbox."""

    def later(self, sandbox: str, after_s: float) -> None:
        self._waiting[sandbox] = self._waiting.get(sandbox, 0) + 1
        self._tasks.create_task(speaking_of(About(sandbox), self._go_on, sandbox, after_s))

    async def find(self, every_s: float = LOOK_AGAIN_S) -> None:
        """For ever: everything of this node that the log has half made, unless it is in hand or has its time set."""
        while True:
            for state in self._lifecycles:
                if state.node == self._node and state.status == Status.CREATING and self._is_left(state.sandbox):
                    self.later(state.sandbox, 0)
            await asyncio.sleep(every_s)

    def _is_left(self, sandbox: str) -> bool:
        assert self.is_in_hand is not None
        return sandbox not in self._waiting and not self.is_in_hand(sandbox)

    async def _go_on(self, sandbox: str, after_s: float) -> None:
        wait_s: float | None = after_s
        try:
            while wait_s is not None:
                await asyncio.sleep(wait_s)
                wait_s = await self._try(sandbox)
        finally:
            self._waiting[sandbox] -= 1
            if not self._waiting[sandbox]:
                del self._waiting[sandbox]

    async def _try(self, sandbox: str) -> float | None:
        """Seconds until it is tried again; None where that is left to `find`, or to the next spawner."""
        assert self.go_on is not None
        try:
            await self.go_on(sandbox)
        except ClocheError as error:
            logger.warning("%s is gone on with later: %s", sandbox, error.message)
            return TRY_AGAIN_S if error.retryable else None
        except Exception:
            # One that cannot be brought to its end must not end the others, nor whoever brings them.
            logger.exception("%s cannot be gone on with", sandbox)
        return None
