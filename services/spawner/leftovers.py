"""Removes what is on this node and should not be."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from contracts.errors import ClocheError
from contracts.spec import Isolation
from contracts.state import Status
from infra.journal import Journal
from infra.sandbox.base import Provider

logger = logging.getLogger(__name__)

GONE = frozenset({Status.REMOVED, Status.FAILED})
"""Nothing of it should be there: what failed was never whole."""


class Leftovers:
    """What a crash left unfinished has no record and goes; so does what the log says was removed or never came to be.

    A whole sandbox that the log has never heard of stays, with a warning: it is the log that is new then, and somebody
    may want the work that lies in the sandbox.
    """

    def __init__(self, journal: Journal, providers: Mapping[Isolation, Provider]) -> None:
        self._journal = journal
        self._providers = providers
        self._strangers: set[str] = set()

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

    async def _look_at(self, provider: Provider, sandbox: str) -> None:
        state = await self._journal.lifecycle(sandbox)
        if state is not None and state.status in GONE:
            logger.warning("%s is %s and still there: removing it again", sandbox, state.status)
            await provider.remove(sandbox)
        elif state is None and sandbox not in self._strangers:
            self._strangers.add(sandbox)
            logger.warning("%s is on this node and not in the log; it is left alone", sandbox)


@contextmanager
def _tried_again(what: str) -> Iterator[None]:
    """One that cannot be removed must not keep the others."""
    try:
        yield
    except (ClocheError, OSError) as error:
        logger.warning("%s: leftovers are looked for again: %s", what, error)
