"""What services and command lines import sooner or later; the server that forks them has it before the first of them.

Nothing but time is lost where something is missing here.
"""

import gc
import importlib

from services.cli.main import MODULES

LATER = (
    "anyio._backends._asyncio",
    "infra.sandbox.devcontainer.provider",
    "infra.sandbox.docker.provider",
    "infra.sandbox.local.provider",
    "services.cli.node",
    *(f"services.cli.{module}" for module in MODULES),
)

for module in LATER:
    importlib.import_module(module)

# A collection in a child would touch, and so copy, every page of what it shares with the server.
gc.collect()
gc.freeze()
