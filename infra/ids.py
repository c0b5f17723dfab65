"""Fresh identifiers: unguessable, ordered by time, safe as a subject token and as a file name."""

import secrets
import time


def new_id(prefix: str) -> str:
    """`<prefix>-` + 11 hex digits of milliseconds + 16 random hex digits."""
    return f"{prefix}-{time.time_ns() // 1_000_000:011x}{secrets.token_hex(8)}"
