"""Has the file watcher put into the log what is in a workspace."""

import asyncio
import logging

from contracts import codec, subjects
from contracts.errors import ClocheError
from contracts.state import SandboxState, Status
from contracts.watch import Flush, Flushed
from infra.blobs import layout
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.sandbox.base import Provider

logger = logging.getLogger(__name__)

STALLED_S = 10.0
"""A removal waits no longer for a file watcher that gets nowhere with the end of a workspace."""
LAST_FLUSH_S = 600.0
"""Nor longer than this for one that does."""
SETTLE_S = 10.0
FIRST_LOOK_S = 60.0
SNAPSHOT_S = 60.0
HAS_WORKSPACE = frozenset({Status.RUNNING, Status.PAUSED, Status.STOPPED})
NOTE_CHARACTERS = 500


class Flushing:
    def __init__(self, bus: Bus, node: str, *, stalled_s: float = STALLED_S) -> None:
        self._bus = bus
        self._node = node
        self._stalled_s = stalled_s

    async def before_removal(self, provider: Provider, state: SandboxState) -> str:
        """Stops it and has its last files told. Answers what went wrong, in words, or nothing."""
        if not state.created or state.status not in HAS_WORKSPACE:
            return ""
        words = await self._stop(provider, state.sandbox) + await self._tell_the_end(state.sandbox)
        if words:
            logger.warning("%s: removed%s", state.sandbox, words)
        return words

    async def _stop(self, provider: Provider, sandbox: str) -> str:
        try:
            await provider.stop(sandbox, 0)
        except (ClocheError, OSError) as error:
            return f"; it could not be stopped before: {error}"[:NOTE_CHARACTERS]
        return ""

    async def _tell_the_end(self, sandbox: str) -> str:
        try:
            await self._while_it_advances(sandbox)
        except TimeoutError:
            error = f"not told within {LAST_FLUSH_S:g} s, or nothing for {self._stalled_s:g} s"
        except (ClocheError, OSError) as problem:
            error = str(problem)
        else:
            return ""
        return f"; its last changes to files may be missing: {error}"[:NOTE_CHARACTERS]

    async def _while_it_advances(self, sandbox: str) -> None:
        """Raises `TimeoutError` once it does not, and what `ask` raises."""
        asked = asyncio.create_task(self._ask(sandbox, Flush(final=True), LAST_FLUSH_S))
        try:
            async with asyncio.timeout(LAST_FLUSH_S):
                before = await self._advance(sandbox)
                while not (await asyncio.wait({asked}, timeout=self._stalled_s))[0]:
                    if (now := await self._advance(sandbox)) == before:
                        raise TimeoutError
                    before = now
                await asked
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    async def _advance(self, sandbox: str) -> tuple[int, int]:
        """How far its files are told, and anybody's contents stored: those of many files come before their event."""
        told = await reader.last(self._bus, subjects.file_events(sandbox))
        stored = await page.fetch_last(self._bus, layout.ALL_OBJECTS, stream=layout.STREAM)
        return (told.seq if told else 0, stored.seq if stored else 0)

    async def first_look(self, sandbox: str) -> None:
        """Has what a workspace began with on record before anything in it changes, if anybody follows its files."""
        await self._settle(self._node, sandbox, FIRST_LOOK_S)

    async def settle(self, node: str, sandbox: str) -> None:
        """Has told what whoever follows its files there has not told yet, if anybody does."""
        await self._settle(node, sandbox, SETTLE_S)

    async def _settle(self, node: str, sandbox: str, timeout_s: float) -> None:
        subject = subjects.rpc("watch", node, sandbox, "flush")
        try:
            await self._bus.request(subject, codec.encode(Flush()), timeout=timeout_s)
        except ClocheError as error:
            logger.info("%s: nobody tells what is in its workspace: %s", sandbox, error.message)

    async def snapshot(self, sandbox: str) -> Flushed:
        """With a manifest. Raises `Unavailable` while nobody follows its files."""
        return await self._ask(sandbox, Flush(manifest=True), SNAPSHOT_S)

    async def _ask(self, sandbox: str, request: Flush, timeout_s: float) -> Flushed:
        subject = subjects.rpc("watch", self._node, sandbox, "flush")
        answer: Flushed = await ask(self._bus, subject, request, Flushed, timeout=timeout_s)
        return answer
