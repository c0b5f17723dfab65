"""How long a request waits for what it asked for."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

from litestar import Response
from litestar.params import QueryParameter
from msgspec import Struct

LONGEST_WAIT_S = 300

Wait = Annotated[
    float, QueryParameter(name="wait", ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for it to be done.")
]
T = TypeVar("T")


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """What comes of it, or None where that takes longer. The order itself stands, whatever we wait for."""
    if seconds == 0:
        work.close()
        return None
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return None


def done(content: Struct, status: int = 200, headers: dict[str, str] | None = None) -> Response[Any]:
    """What came of it in time, in the place of the 202 that the route promises otherwise."""
    return Response(content, status_code=status, headers=headers)
