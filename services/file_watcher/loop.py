"""Which workspaces are followed: those that the log says are on this node."""

import asyncio
import logging
import time
from pathlib import Path
from typing import NamedTuple

from contracts.errors import ClocheError, SandboxInvalidState, SandboxNotFound, Unavailable
from contracts.recovery import is_restoring
from contracts.state import SandboxState, Status
from contracts.watch import Flush, Flushed
from infra.observing.about import About, speaking_of
from services.file_watcher.follower import Follower
from services.file_watcher.places import Places
from services.file_watcher.tools import Tools

logger = logging.getLogger(__name__)

HAS_WORKSPACE = frozenset({Status.CREATING, Status.RUNNING, Status.PAUSED, Status.STOPPED})
AT_REST = frozenset({Status.PAUSED, Status.STOPPED})
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0


class _Followed(NamedTuple):
    follower: Follower
    task: asyncio.Task[None]


class Followers:
    def __init__(self, tools: Tools, places: Places, tasks: asyncio.TaskGroup) -> None:
        self._tools = tools
        self._places = places
        self._tasks = tasks
        self._followed: dict[str, _Followed] = {}

    def __len__(self) -> int:
        return len(self._followed)

    def consider(self, state: SandboxState) -> None:
        """Follow it, or no longer."""
        followed = self._followed.get(state.sandbox)
        if not self._is_here(state):
            self._leave(state.sandbox)
        elif followed is None or (followed.task.done() and state.status == Status.RUNNING):
            self._begin(state)
        elif state.status in AT_REST:
            followed.follower.hurry()

    async def flush(self, sandbox: str, request: Flush) -> Flushed:
        """Raises `SandboxNotFound`, `SandboxInvalidState` for what is not followed here, `Unavailable`."""
        if sandbox not in self._followed:
            self.consider(await self._present(sandbox))
        return await self._followed[sandbox].follower.flush(request)

    async def _present(self, sandbox: str) -> SandboxState:
        state = await self._tools.journal.lifecycle(sandbox)
        if state is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
        if not self._is_here(state):
            raise SandboxInvalidState(f"sandbox {sandbox!r} is {state.status}", status=state.status)
        return state

    def _is_here(self, state: SandboxState) -> bool:
        here = state.node == self._tools.journal.node and self._places.has(state)
        # What is missing while a workspace is made again was not deleted.
        return here and state.created and state.status in HAS_WORKSPACE and not is_restoring(state)

    def _begin(self, state: SandboxState) -> None:
        async def locate() -> Path:
            return await self._places.of(state)

        follower = Follower(self._tools, state, locate)
        following = speaking_of(About(state.sandbox), keep_following, follower, state.sandbox)
        self._followed[state.sandbox] = _Followed(follower, self._tasks.create_task(following))

    def _leave(self, sandbox: str) -> None:
        followed = self._followed.pop(sandbox, None)
        if followed is not None:
            followed.task.cancel()
            followed.follower.refuse(SandboxInvalidState(f"sandbox {sandbox!r} is gone"))


async def keep_following(follower: Follower, sandbox: str) -> None:
    """Again and again while it fails: one workspace that cannot be followed must not stop the others."""
    pause = FIRST_PAUSE_S
    while follower.last_words is None:
        began = time.monotonic()
        try:
            await follower.follow()
        except ClocheError as error:
            logger.warning("%s: its files are not followed for now: %s", sandbox, error.message)
            follower.refuse(error)
        except OSError as error:
            logger.warning("%s: its files are not followed for now: %s", sandbox, error)
            follower.refuse(Unavailable(f"the workspace of {sandbox!r} cannot be looked at: {error}"))
        except Exception:
            logger.exception("%s: a bug in following its files", sandbox)
            follower.refuse(Unavailable(f"the workspace of {sandbox!r} cannot be followed"))
        if follower.last_words is None:
            went_well = time.monotonic() - began > LONGEST_PAUSE_S
            pause = FIRST_PAUSE_S if went_well else min(pause * 2, LONGEST_PAUSE_S)
            await asyncio.sleep(pause)
