"""How long a request waits for a bus that does not answer: over a restart of NATS, and not for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contracts.errors import Unavailable

PATIENCE_S = 15.0


@asynccontextmanager
async def patience(words: str = "the log does not answer") -> AsyncIterator[None]:
    """Raises `Unavailable` when it has run out."""
    try:
        async with asyncio.timeout(PATIENCE_S) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise Unavailable(words) from None
