"""The copy of the read model in the KV bucket: written behind it, restored from, made again when it is lost.

Several replay services may write the same bucket. A state is never written over a later one, so whoever is behind takes
nothing back, and the cursor never says more than the states hold.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from contracts import codec
from contracts.errors import Conflict, Invalid, Unavailable
from contracts.state import SandboxState
from infra.bus.errors import NobodyAnswers
from infra.bus.kv import Bucket, Kept
from services.replay.projection import Projection

logger = logging.getLogger(__name__)

CURSOR = "_cursor"
"""No sandbox can be called so: ids begin with a letter or digit."""
OWN = "_"
"""What begins so is no sandbox."""
FLUSH_S = 0.1
PUT_S = 5.0
TRY_AGAIN_S = 1.0
NO_END = 2**63


class Cursor(Struct, frozen=True, kw_only=True):
    """How far the log was read."""

    sequence: int = 0
    stored_at: str = ""
    """Of the event there: a log that lost its end has another one. Empty where nobody knows."""


class Mirror:
    def __init__(self, bucket: Bucket, projection: Projection, changed: asyncio.Event) -> None:
        self._bucket = bucket
        self._projection = projection
        self._changed = changed
        self._revisions: dict[str, int] = {}
        self._is_gone = False
        self.writing = asyncio.Lock()
        """Held while it is written: otherwise what is known and not dirty is in the bucket."""

    async def restore(self, last: Callable[[], Awaitable[int]]) -> Cursor:
        """What the bucket remembers; returns what to go on after. A bucket that is lost or damaged means from 1.

        `last` tells the last sequence of the log: what says that it is of a later one is damaged. Raises `Unavailable`.
        """
        kept = await self._kept()
        end = await last()
        cursor, damaged = Cursor(), False
        for key, each in kept.items():
            self._revisions[key] = each.revision
            try:
                if key == CURSOR:
                    cursor = _cursor(each.value, end)
                elif not key.startswith(OWN):
                    self._projection.restore(read_state(key, each.value, end))
            except Invalid:
                # What else there is stays: the log may have forgotten how it began.
                damaged = True
        return Cursor() if damaged else cursor

    async def _kept(self) -> dict[str, Kept]:
        try:
            return await self._bucket.kept()
        except NobodyAnswers:
            if not await self._bucket.is_gone():
                raise
            return {}

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._changed.wait()
            # Not at once: what follows within a moment goes along, and a short command has the machine for itself.
            await asyncio.sleep(FLUSH_S)
            self._changed.clear()
            async with self.writing:
                await self._flush()

    async def _flush(self) -> None:
        """States first, the cursor last, so that a crash between repeats work and never skips any."""
        cursor = Cursor(sequence=self._projection.applied, stored_at=self._projection.stored_at)
        dirty = self._projection.take_dirty()
        try:
            for state in dirty:
                await self._put(state)
            await self._put_cursor(cursor)
        except Unavailable:
            self._projection.mark(state.sandbox for state in dirty)
            self._changed.set()
            await self._wait_for_it()
            return
        if self._is_gone:
            self._is_gone = False
            logger.warning("the bucket of sandboxes is back, with everything in it")

    async def _wait_for_it(self) -> None:
        """A bucket that is gone is complained about once, and written whole when it is back."""
        if await self.notice_loss() and not self._is_gone:
            self._is_gone = True
            logger.error("the bucket of sandboxes is gone: `cloche rebuild` makes it again")
        await asyncio.sleep(TRY_AGAIN_S)

    async def notice_loss(self) -> bool:
        """Whether the bucket is gone; then everything is to be written."""
        try:
            gone = await self._bucket.is_gone()
        except Unavailable:
            # The server is away: what was to be written is remembered.
            return False
        if gone:
            self._write_all()
        return gone

    def _write_all(self) -> None:
        self._revisions.clear()
        self._projection.mark(state.sandbox for state in self._projection.all())
        self._changed.set()

    async def _put(self, state: SandboxState) -> None:
        """Never over a later one."""
        value = codec.encode(state)
        revision = self._revisions.get(state.sandbox, 0)
        while not await self._put_once(state.sandbox, value, revision):
            newest = await self._bucket.newest(state.sandbox)
            self._revisions[state.sandbox] = revision = newest.revision
            if newest.value is not None and self._is_later(state, newest.value):
                return

    async def _put_once(self, sandbox: str, value: bytes, revision: int) -> bool:
        """False where that is not the newest revision. What cannot be kept at all is complained about."""
        try:
            self._revisions[sandbox] = await self._bucket.put(sandbox, value, revision=revision, timeout_s=PUT_S)
        except Conflict:
            return False
        except Invalid as error:
            logger.error("the state of %s cannot be kept: %s", sandbox, error.message)  # noqa: TRY400
        return True

    async def _put_cursor(self, cursor: Cursor) -> None:
        """Where the bucket was emptied behind our back, everything is written before the cursor is."""
        known = self._revisions.get(CURSOR, 0)
        value = codec.encode(cursor)
        try:
            self._revisions[CURSOR] = await self._bucket.put(CURSOR, value, revision=known, timeout_s=PUT_S)
        except Conflict:
            newest = await self._bucket.newest(CURSOR)
            if newest.revision < known:
                self._write_all()
            else:
                # Another one of us has written: theirs is as true as ours.
                self._revisions[CURSOR] = newest.revision

    async def told(self) -> dict[str, bytes]:
        """What the bucket has of each sandbox. Raises `Unavailable`."""
        return {key: each.value for key, each in (await self._bucket.kept()).items() if not key.startswith(OWN)}

    async def repair(self, sandbox: str, last: int) -> bool:
        """Make the bucket say of a sandbox what is known of it. Returns whether it said otherwise.

        What another one of us has written, that is later and not beyond the `last` sequence of the log, is left alone.
        Raises `Unavailable`.
        """
        async with self.writing:
            newest = await self._bucket.newest(sandbox)
            state = self._projection.get(sandbox)
            if state is None:
                return newest.value is not None and await self._remove(sandbox, newest.revision)
            if newest.value is not None and self._says_so(state, newest.value, last):
                return False
            return await self._put_once(sandbox, codec.encode(state), newest.revision)

    def _is_later(self, state: SandboxState, value: bytes, last: int = NO_END) -> bool:
        """Whether what is kept is of another one of us that has read further.

        Up to where the log was read here, nothing can be known of a sandbox that is not known here.
        """
        try:
            kept = read_state(state.sandbox, value, last)
        except Invalid:
            return False
        return kept.applied_sequence > max(state.applied_sequence, self._projection.applied)

    def _says_so(self, state: SandboxState, value: bytes, last: int) -> bool:
        """Whether what is kept is this state, or a later one."""
        return value == codec.encode(state) or self._is_later(state, value, last)

    async def _remove(self, sandbox: str, revision: int) -> bool:
        self._revisions.pop(sandbox, None)
        try:
            await self._bucket.forget(sandbox, revision=revision)
        except Conflict:
            return False
        return True


def _cursor(value: bytes, last: int) -> Cursor:
    cursor: Cursor = codec.decode(value, Cursor)
    if not 0 <= cursor.sequence <= last:
        raise Invalid(f"the log ends at {last}: nobody has read up to {cursor.sequence}")
    return cursor


def read_state(sandbox: str, value: bytes, last: int) -> SandboxState:
    """Raises `Invalid`, also for the state of another sandbox, and for one of a later sequence than the `last`."""
    state: SandboxState = codec.decode(value, SandboxState)
    if state.sandbox != sandbox or state.applied_sequence > last:
        raise Invalid(f"this is not the state of {sandbox!r} at any sequence up to {last}")
    return state
