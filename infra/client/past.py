"""A sandbox as it was, as a program outside sees it. Also of one that is gone, or was imported."""

import asyncio
import datetime
from collections.abc import AsyncIterator

from contracts import subjects
from contracts.errors import Invalid
from contracts.history import FilesAt, ListFilesAt
from contracts.ids import is_token
from contracts.past import GetStateAt, Rebuild, Rebuilding, StateAt
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.log.lacking import warn_of

STATE_TIMEOUT_S = 110.0
"""The first question about a long history takes as long as reading it. The server forgets whom to answer after that."""
REBUILD_TIMEOUT_S = 30.0
LOOK_S = 0.2


async def state_at(
    bus: Bus, sandbox: str, sequence: int | None = None, *, time: datetime.datetime | None = None
) -> StateAt:
    """After the event with a sequence, or after what was stored up to a time. Absent = now.

    Raises `SandboxNotFound`, `Invalid` (the log does not reach so far, it did not exist yet, or the log has forgotten
    how it began), `Unavailable`.
    """
    if not is_token(sandbox):
        raise Invalid(f"{sandbox!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")
    query = GetStateAt(sandbox=sandbox, at=sequence, time=time)
    answer: StateAt = await ask(bus, subjects.state_rpc("state"), query, StateAt, timeout=STATE_TIMEOUT_S)
    warn_of(answer.lacking)
    return answer


async def file_count(bus: Bus, sandbox: str, sequence: int, most: int) -> int:
    """How many entries its workspace had; counted up to about `most`. Raises what asking for them raises."""
    count, after = 0, None
    while count < most:
        query = ListFilesAt(sandbox=sandbox, at=sequence, after=after)
        page: FilesAt = await ask(bus, subjects.state_rpc("files"), query, FilesAt, timeout=STATE_TIMEOUT_S)
        warn_of(page.lacking)
        count, after = count + len(page.entries), page.next
        if after is None:
            break
    return count


async def rebuild(bus: Bus) -> AsyncIterator[Rebuilding]:
    """Have the read models folded from nothing, and tell how far that has come, to its end.

    Raises `Unavailable`, `Invalid` when the service that did it is gone: then ask again.
    """
    subject = subjects.state_rpc("rebuild")
    standing: Rebuilding = await ask(bus, subject, Rebuild(), Rebuilding, timeout=REBUILD_TIMEOUT_S)
    yield standing
    while not standing.done:
        await asyncio.sleep(LOOK_S)
        standing = await ask(bus, subject, Rebuild(follow=standing.id), Rebuilding, timeout=REBUILD_TIMEOUT_S)
        yield standing
