"""Which sandboxes are attached: those of this node that run and may go out by name."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from contracts.egress import Attach, Attached
from contracts.errors import SandboxInvalidState, SandboxNotFound
from contracts.spec import NetworkMode
from contracts.state import SandboxState, Status
from infra.netns.entrance import living
from infra.observing.about import About, speaking_of
from services.egress.attaching import Attachment, Tools

ALIVE = frozenset({Status.RUNNING, Status.PAUSED})


class _Kept(NamedTuple):
    attachment: Attachment
    task: asyncio.Task[None]
    since: int
    """What the log said of the sandbox before that does not count."""

    def is_of(self, instance: str) -> bool:
        """Serves that life, or still tries to. Not where it found it over: who says that it runs may know better."""
        return self.attachment.instance == instance and not self.attachment.is_over


class Attachments:
    def __init__(
        self,
        tools: Tools,
        tasks: asyncio.TaskGroup,
        known: Callable[[str], SandboxState | None],
        changed: Callable[[SandboxState], None],
    ) -> None:
        """`known` answers what the log said a moment ago; `changed` is told of every state that is news."""
        self._tools = tools
        self._tasks = tasks
        self._known = known
        self._changed = changed
        self._kept: dict[str, _Kept] = {}

    def consider(self, state: SandboxState) -> None:
        """Attach it, or no longer."""
        kept = self._kept.get(state.sandbox)
        if kept is not None and state.lifecycle_sequence <= kept.since:
            return
        self._changed(state)
        if state.status == Status.CREATING and self._may_go_out(state):
            # What is attached meanwhile was asked for by whoever makes it, and ends with its life.
            return
        if not self._may_go_out(state) or state.status not in ALIVE or state.instance is None:
            self._leave(state.sandbox)
        elif kept is None or not kept.is_of(state.instance):
            self._begin(state, state.instance)
        else:
            kept.attachment.learn(state)

    async def attach(self, sandbox: str, request: Attach) -> Attached:
        """Before the log says that it runs, so that no command can be there first.

        Raises `SandboxNotFound`, `SandboxInvalidState` for what does not run here or may not go out, and what keeps
        this from being done: it is tried again without further asking.
        """
        kept = self._kept.get(sandbox)
        if kept is None or not kept.is_of(request.instance):
            state = await self._present(sandbox, request.sequence)
            if kept is not None and not kept.task.done():
                # Whoever asks may be wrong about which life it is, and the one that is served must not pay for it.
                await living(self._tools.providers[state.isolation], sandbox, request.instance)
            kept = self._kept.get(sandbox)
            if kept is None or not kept.is_of(request.instance):
                kept = self._begin(state, request.instance)
        return Attached(way=await kept.attachment.attached())

    async def _present(self, sandbox: str, sequence: int) -> SandboxState:
        state = self._known(sandbox)
        if state is None or not 0 < sequence <= state.lifecycle_sequence:
            state = await self._tools.journal.lifecycle(sandbox)
        if state is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
        if not self._may_go_out(state):
            mode = state.spec.network.mode
            raise SandboxInvalidState(f"sandbox {sandbox!r} is on node {state.node!r}, with network {mode}")
        return state

    def _may_go_out(self, state: SandboxState) -> bool:
        here = state.node == self._tools.journal.node and state.isolation in self._tools.providers
        return here and state.spec.network.mode is NetworkMode.RESTRICTED

    def _begin(self, state: SandboxState, instance: str) -> _Kept:
        before = self._leave(state.sandbox)
        attachment = Attachment(self._tools, state, instance)
        task = self._tasks.create_task(speaking_of(About(state.sandbox), _keep_after, before, attachment))
        kept = self._kept[state.sandbox] = _Kept(attachment, task, state.lifecycle_sequence)
        return kept

    def _leave(self, sandbox: str) -> asyncio.Task[None] | None:
        kept = self._kept.pop(sandbox, None)
        if kept is None:
            return None
        kept.task.cancel()
        return kept.task


async def _keep_after(before: asyncio.Task[None] | None, attachment: Attachment) -> None:
    """The port is free once what listened there before has let go."""
    if before is not None:
        await asyncio.wait({before})
    await attachment.keep()
