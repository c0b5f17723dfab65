"""What was begun and is not finished: gone on with when the spawner starts, and when a recovery is tried again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from contracts.errors import ClocheError
from contracts.state import Status
from infra.lifecycles import Lifecycles

logger = logging.getLogger(__name__)

TRY_AGAIN_S = 5.0


class Unfinished:
    """Orders may be lost, or given up, between two steps; the log still says what was begun."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self.go_on: Callable[[str], Awaitable[None]] | None = None
        """With one sandbox, if there is anything to go on with."""

    def later(self, sandbox: str, after_s: float) -> None:
        self._tasks.create_task(self._go_on(sandbox, after_s))

    def find(self, lifecycles: Lifecycles, node: str) -> None:
        """Everything of this node that the log has half made."""
        for state in lifecycles:
            if state.node == node and state.status == Status.CREATING:
                self.later(state.sandbox, 0)

    async def _go_on(self, sandbox: str, after_s: float) -> None:
        assert self.go_on is not None
        while True:
            await asyncio.sleep(after_s)
            try:
                await self.go_on(sandbox)
            except ClocheError as error:
                logger.warning("%s is gone on with later: %s", sandbox, error.message)
                after_s = TRY_AGAIN_S
                if not error.retryable:
                    return
            else:
                return
