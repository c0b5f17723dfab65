"""Work in threads that is never left behind."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """As `asyncio.to_thread`, but a cancellation waits for the call to end.

    So what the call uses, a descriptor above all, is still its own when whoever holds it closes it.
    """
    work = asyncio.ensure_future(asyncio.to_thread(call, *arguments, **options))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({work})
        if not work.cancelled():
            # Nobody else looks at it.
            work.exception()
        raise
