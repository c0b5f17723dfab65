"""Everything that speaks NATS."""

import importlib
import sys


def _import_nats() -> None:
    """nats-py imports aiohttp where it finds it, for WebSockets that we do not use: half of a short command line."""
    if "aiohttp" in sys.modules:
        return
    sys.modules["aiohttp"] = None  # type: ignore[assignment]  # the way to say that there is none
    try:
        importlib.import_module("nats.aio.transport")
    finally:
        del sys.modules["aiohttp"]


_import_nats()
