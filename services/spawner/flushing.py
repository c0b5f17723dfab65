"""Has the file watcher put into the log what is in a workspace."""

import asyncio
import logging

from contracts import codec, subjects
from contracts.errors import ClocheError
from contracts.state import SandboxState, Status
from contracts.watch import Flush, Flushed
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.sandbox.base import Provider

logger = logging.getLogger(__name__)

LAST_FLUSH_S = 10.0
"""A removal waits no longer for the end of a workspace to be on the record."""
SNAPSHOT_S = 60.0
HAS_WORKSPACE = frozenset({Status.RUNNING, Status.PAUSED, Status.STOPPED})
NOTE_CHARACTERS = 500


class Flushing:
    def __init__(self, bus: Bus, node: str) -> None:
        self._bus = bus
        self._node = node

    async def before_removal(self, provider: Provider, state: SandboxState) -> str:
        """Stops it and has its last files told. Answers what went wrong, in words, or nothing."""
        if not state.created or state.status not in HAS_WORKSPACE:
            return ""
        try:
            await provider.stop(state.sandbox, 0)
            async with asyncio.timeout(LAST_FLUSH_S):
                await self._ask(state.sandbox, Flush(final=True), LAST_FLUSH_S)
        except TimeoutError:
            error = f"no answer within {LAST_FLUSH_S:g} s"
        except (ClocheError, OSError) as problem:
            error = str(problem)
        else:
            return ""
        logger.warning("%s: its last changes to files may be missing: %s", state.sandbox, error)
        return f"; its last changes to files may be missing: {error}"[:NOTE_CHARACTERS]

    async def settle(self, node: str, sandbox: str) -> None:
        """Has told what whoever follows its files there has not told yet, if anybody does."""
        subject = subjects.rpc("watch", node, sandbox, "flush")
        try:
            await self._bus.request(subject, codec.encode(Flush()), timeout=LAST_FLUSH_S)
        except ClocheError as error:
            logger.info("%s: nobody tells its last changes to files: %s", sandbox, error.message)

    async def snapshot(self, sandbox: str) -> Flushed:
        """With a manifest. Raises `Unavailable` while nobody follows its files."""
        return await self._ask(sandbox, Flush(manifest=True), SNAPSHOT_S)

    async def _ask(self, sandbox: str, request: Flush, timeout_s: float) -> Flushed:
        subject = subjects.rpc("watch", self._node, sandbox, "flush")
        answer: Flushed = await ask(self._bus, subject, request, Flushed, timeout=timeout_s)
        return answer
