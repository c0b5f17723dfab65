"""The engine's answers that are no answers, as our errors, in the engine's words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec
from aiodocker import DockerError

from contracts.errors import ClocheError, Unavailable

NO_CONNECTION = 900
"""What aiodocker puts in the place of a status when nobody answered."""
NOT_FOUND, CONFLICT, NOT_MODIFIED = 404, 409, 304


class Refused(ClocheError):
    """The engine understood and said no. `status` is that of its answer, 0 where it came in the middle of one."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@asynccontextmanager
async def asking(what: str, timeout_s: float) -> AsyncIterator[None]:
    """Around every call. Raises `Refused`, and `Unavailable` when no engine answers within `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except DockerError as error:
        if error.status == NO_CONNECTION:
            raise Unavailable(f"cannot {what}: {error.message}") from error
        raise Refused(error.status, error.message) from error
    except TimeoutError as error:
        raise Unavailable(f"cannot {what}: the Docker engine did not answer within {timeout_s:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unavailable(f"cannot {what}: the Docker engine is gone: {error}") from error
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError) as error:
        raise Refused(0, f"cannot {what}: the Docker engine's answer makes no sense: {error}") from error
