"""What is counted of sandboxes that are made and brought back."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contracts.state import Recovery
from infra.observing import catalogue


@asynccontextmanager
async def creating() -> AsyncIterator[None]:
    """While a sandbox is being made and started."""
    begun = time.perf_counter()
    try:
        yield
    except Exception:
        catalogue.creations.add("failed")
        raise
    catalogue.creations.add("created")
    catalogue.creation_seconds.observe(time.perf_counter() - begun)


def recovered(recovery: Recovery | None, outcome: str) -> None:
    """One that nobody asked for is of a death, and counts its attempts."""
    by_order = recovery is not None and recovery.attempt == 0
    catalogue.recoveries.add("order" if by_order else "death", outcome)
