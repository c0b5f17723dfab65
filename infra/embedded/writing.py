"""Whether the server still stores: after a write that failed it takes no other and answers none, while it runs."""

import json
import os
from pathlib import Path

from infra.bus.connection import Bus

HEALTH = "$SYS.REQ.SERVER.PING.HEALTHZ"
FAILED = "write error"
ROOM_BYTES = 16 * 1024 * 1024
"""With less than that a server would soon fail again."""


async def failure(system: Bus) -> str | None:
    """In the server's words, if a write has failed. Raises `Unavailable`."""
    answer = json.loads((await system.request(HEALTH, b'{"details": true}')).data)["data"]
    told = [answer.get("error", ""), *(each.get("error", "") for each in answer.get("errors") or ())]
    return next((words for words in told if FAILED in words), None)


def has_room(store: Path) -> bool:
    found = os.statvfs(store)
    return found.f_bavail * found.f_frsize >= ROOM_BYTES
