"""Keeps the read model at the head of the log, and a copy of it in the KV bucket."""

import asyncio
import logging

from contracts import codec
from contracts.errors import Invalid
from contracts.state import SandboxState
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.kv import Bucket
from services.replay.projection import Projection, filters

logger = logging.getLogger(__name__)

CURSOR = "_cursor"
"""No sandbox can be called so: ids begin with a letter or digit."""
FLUSH_S = 0.1


async def restore(bucket: Bucket, projection: Projection) -> int:
    """What the bucket remembers; returns the sequence to go on from. A bucket that is lost or damaged means from 1."""
    start = 1
    for key, value in (await bucket.all()).items():
        try:
            if key == CURSOR:
                start = codec.decode(value, int) + 1
            else:
                projection.restore(codec.decode(value, SandboxState))
        except Invalid:
            return 1
    return start


async def follow(bus: Bus, projection: Projection, start: int, changed: asyncio.Event) -> None:
    """For ever, until cancelled."""
    async for entry in reader.read(bus, filters(), start, follow=True):
        try:
            projection.apply(entry.seq, codec.decode_head(entry.data))
        except Invalid as error:
            logger.error("event %d cannot be read: %s", entry.seq, error.message)  # noqa: TRY400
        changed.set()


async def flush(bucket: Bucket, projection: Projection, changed: asyncio.Event) -> None:
    """For ever: states first, the cursor last, so that a crash between repeats work and never skips any."""
    while True:
        await changed.wait()
        # Not at once: what follows within a moment goes along, and a short command has the machine for itself.
        await asyncio.sleep(FLUSH_S)
        changed.clear()
        applied = projection.applied
        for state in projection.take_dirty():
            try:
                await bucket.put(state.sandbox, codec.encode(state))
            except Invalid as error:
                logger.error("the state of %s cannot be kept: %s", state.sandbox, error.message)  # noqa: TRY400
        await bucket.put(CURSOR, codec.encode(applied))
