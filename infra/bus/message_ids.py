"""Ids of messages: one namespace for the whole stream, and the server keeps no record of who used one for what.

So "I have this already" is looked up. Where somebody has used the id for something else, by mistake or to keep this out
of the log, it is stored under another one that begins with it, by which it is found as well.
"""

import logging
import secrets

from infra.bus import page
from infra.bus.connection import Bus

log = logging.getLogger(__name__)
MARK = "~"


def is_of(found: str, msg_id: str) -> bool:
    """Whether a message with the id `found` is the one that was meant to have `msg_id`."""
    return found == msg_id or found.startswith(msg_id + MARK)


def another(msg_id: str) -> str:
    """One that nobody can have used before."""
    return f"{msg_id}{MARK}{secrets.token_hex(8)}"


async def holds(bus: Bus, seq: int, subject: str, msg_id: str) -> bool:
    """Whether it is this message that the log has there. Raises what `page.fetch` raises."""
    entry = await page.fetch_one(bus, seq)
    # What the log's limits have dropped since is believed.
    if entry is None or (entry.subject == subject and is_of(entry.msg_id, msg_id)):
        return True
    log.error("the id %s of %s is in use at sequence %d by %s: another is taken", msg_id, subject, seq, entry.subject)
    return False
