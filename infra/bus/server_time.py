"""The time as the servers have it, for ages of what they have stored: the clock of this machine may be set wrong."""

import datetime

from infra.bus.connection import Bus
from infra.bus.page import time_of


async def server_now(bus: Bus, stream: str) -> datetime.datetime:
    """By the clock of whoever stores the stream's messages now. Raises `Unavailable`."""
    return time_of((await bus.api(f"STREAM.INFO.{stream}"))["ts"])
