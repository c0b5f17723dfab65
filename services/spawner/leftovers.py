"""Removes what is on this node and should not be."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager

from contracts.errors import ClocheError
from contracts.spec import Isolation
from contracts.state import SandboxState, Status
from infra.journal import Journal
from infra.sandbox.base import Provider

logger = logging.getLogger(__name__)

Lane = Callable[[str], AbstractAsyncContextManager[object]]
"""Keeps orders for a sandbox away meanwhile."""


class Leftovers:
    """What a crash left unfinished has no record and goes; so does what the log says was removed or never came to be,
    and what another node has taken over: it must not live twice.

    A whole sandbox that the log has never heard of stays, with a warning: it is the log that is new then, and somebody
    may want the work that lies in the sandbox. So does one that the log says is another node's and never was ours: it
    is the node that has a new name then.
    """

    def __init__(self, journal: Journal, providers: Mapping[Isolation, Provider], lane: Lane) -> None:
        self._journal = journal
        self._providers = providers
        self._lane = lane
        self._strangers: set[str] = set()
        self._taken: asyncio.Queue[SandboxState] = asyncio.Queue()

    async def sweep(self, every_s: float) -> None:
        """For ever."""
        while True:
            for provider in self._providers.values():
                with _tried_again(provider.name):
                    await provider.sweep()
                with _tried_again(provider.name):
                    for sandbox in await provider.sandboxes():
                        with _tried_again(sandbox):
                            await self._look_at(provider, sandbox)
            await asyncio.sleep(every_s)

    def notice(self, state: SandboxState) -> None:
        """The log has news of it."""
        if self._is_taken(state) and state.isolation in self._providers:
            self._taken.put_nowait(state)

    async def give_way(self) -> None:
        """For ever: what another node takes over is removed at once. What cannot be is left to `sweep`."""
        while True:
            state = await self._taken.get()
            provider = self._providers[state.isolation]
            with _tried_again(state.sandbox):
                if state.sandbox in await provider.sandboxes():
                    await self._look_at(provider, state.sandbox)

    async def _look_at(self, provider: Provider, sandbox: str) -> None:
        async with self._lane(sandbox):
            state = await self._journal.lifecycle(sandbox)
            if state is not None and (reason := self._why_not_here(state)):
                logger.warning("%s is removed from this node: %s", sandbox, reason)
                await provider.remove(sandbox)
            elif (state is None or state.node != self._journal.node) and sandbox not in self._strangers:
                self._strangers.add(sandbox)
                logger.warning("%s is on this node and not in the log as its own; it is left alone", sandbox)

    def _why_not_here(self, state: SandboxState) -> str:
        if state.status == Status.REMOVED:
            return "it was removed"
        if state.status == Status.FAILED and not state.created:
            return "it never came to be"
        if self._is_taken(state):
            return f"node {state.node!r} has taken it over"
        return ""

    def _is_taken(self, state: SandboxState) -> bool:
        node = self._journal.node
        return state.node != node and node in state.former_nodes


@contextmanager
def _tried_again(what: str) -> Iterator[None]:
    """One that cannot be removed must not keep the others."""
    try:
        yield
    except (ClocheError, OSError) as error:
        logger.warning("%s: leftovers are looked for again: %s", what, error)
