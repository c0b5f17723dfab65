"""The log of a Cloche, or one sandbox of it, against its proof."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable

from contracts import subjects
from contracts.chain import Message
from contracts.verifying import Scope, Trust, Verdict, Verifier
from infra.audit import signing
from infra.bus.page import Entry
from infra.log.archived import ArchivedView
from infra.log.live import LiveView
from infra.verify import contents

EVERY = 500
TRIES = 5
"""For a log whose limits drop faster than it is read."""
Tell = Callable[[str, int, int], None]
"""What is looked at, how far it has come, and how far it has to go."""
_UNKNOWN = datetime.datetime.min.replace(tzinfo=datetime.UTC)
"""When what was imported had been exported: all anchors beyond it may be newer."""
LogSource = LiveView | ArchivedView


async def verify_log(view: LiveView, trust: Trust, tell: Tell, *, log: str = "", blobs: bool = True) -> Verdict:
    """Everything that is stored when this is called; what is stored later is left to the next time.

    `trust.anchors` must have been read before: what was anchored since would seem to be gone. Raises `Unavailable`.
    """

    async def attempt(first: int, last: int) -> Verdict:
        entries = view.read_over_gaps(first, last) if last >= first else _nothing()
        return await _verify(view, Scope(None, log, first, last), entries, trust, tell, blobs=blobs)

    return await _over_what_stays(view, attempt)


async def verify_sandbox(
    view: LogSource, sandbox: str, trust: Trust, tell: Tell, *, log: str = "", blobs: bool = True
) -> Verdict:
    """One sandbox, with the checkpoints of the whole log. As `verify_log`; one that was imported as an export of it."""
    filters = [*subjects.events_of(sandbox), *subjects.events_of(subjects.NO_SANDBOX, family="audit")]
    if isinstance(view, ArchivedView):
        record = view.record
        scope = Scope(sandbox, record.log, record.first_sequence, record.last_sequence, _UNKNOWN)
        return await _verify(view, scope, view.read(filters, scope.first), trust, tell, blobs=blobs)

    async def attempt(first: int, last: int) -> Verdict:
        entries = view.read(filters, first, end=last)
        return await _verify(view, Scope(sandbox, log, first, last), entries, trust, tell, blobs=blobs)

    return await _over_what_stays(view, attempt)


async def _over_what_stays(view: LiveView, attempt: Callable[[int, int], Awaitable[Verdict]]) -> Verdict:
    """What the log's limits drop while it is read is no fault: then once more, from behind what they may drop next."""
    first, last = await view.bounds()
    first = max(first, 1)
    for _ in range(TRIES):
        verdict = await attempt(first, last)
        dropped = (await view.bounds()).first - first
        if dropped <= 0 or not verdict.findings:
            break
        first = min(first + 2 * dropped, last + 1)
    return verdict


async def _nothing() -> AsyncIterator[Entry]:
    return
    yield


async def _verify(
    view: LogSource, scope: Scope, entries: AsyncIterator[Entry], trust: Trust, tell: Tell, *, blobs: bool
) -> Verdict:
    verifier = Verifier(signing.verify, scope, trust)
    count = 0
    async for entry in entries:
        verifier.feed(Message(entry.seq, entry.subject, entry.msg_id, entry.stored_at, entry.data))
        count += 1
        if count % EVERY == 0:
            tell("events", entry.seq - scope.first + 1, scope.last - scope.first + 1)
    checked = -1
    if blobs:
        checked = await contents.check(view.blobs, verifier.names, lambda done, whole: tell("contents", done, whole))
    return await asyncio.to_thread(verifier.finish, checked)
