"""The one writer of the real stdout."""

from __future__ import annotations

import json
import os
import threading
from typing import Any


class Out:
    """Lines of JSON: `event` says what happened, `n` counts them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._count = 0

    def tell(self, event: str, **fields: Any) -> None:
        with self._lock:
            self._count += 1
            rest = _encode({"n": self._count, "event": event, **fields})
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


def _encode(event: dict[str, Any]) -> bytes:
    # Halves of characters, as models make them, are no UTF-8.
    return json.dumps(event, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
