"""What whoever starts the gateway tells it in its environment. Imports nothing of the web."""

import ctypes
import os
import signal
from pathlib import Path

START_TOKEN = "CLOCHE_GATEWAY_TOKEN"
"""Good for as long as that one lives."""
PARENT = "CLOCHE_GATEWAY_PARENT"
"""The process that started it, and that it is not to outlive. Absent = it lives by itself."""
BUILT = Path(__file__).parents[1] / "dashboard" / "dist"
"""The dashboard that came with this version, if it did."""
PR_SET_PDEATHSIG = 1


def take_start_token() -> str | None:
    """Out of the environment at once: what we start must not inherit it."""
    return os.environ.pop(START_TOKEN, None)


def end_with_parent() -> None:
    """Also where that one is killed: else a gateway that nobody knows of would hold the address."""
    given = os.environ.pop(PARENT, None)
    if given is None:
        return
    # Not SIGTERM: one that is busy would hold the address until it has time to hear of it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(given):
        signal.raise_signal(signal.SIGKILL)
