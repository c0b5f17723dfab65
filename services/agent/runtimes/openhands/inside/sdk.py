"""The OpenHands SDK, imported late: everything that it prints has to go to stderr by then."""

from __future__ import annotations

import gc
import importlib
import os
from types import SimpleNamespace
from typing import Any

OWN_TOOLS = ("finish", "think")
"""Of the SDK itself: they do nothing, and nobody is asked about them."""


def load_sdk() -> Any:
    names = {
        "sdk": "openhands.sdk",
        "event": "openhands.sdk.event",
        "io": "openhands.sdk.io",
        "local": "openhands.sdk.conversation.impl.local_conversation",
        "state": "openhands.sdk.conversation.state",
        "exceptions": "openhands.sdk.conversation.exceptions",
        "policy": "openhands.sdk.security.confirmation_policy",
        "condenser": "openhands.sdk.context.condenser",
        "terminal": "openhands.tools.terminal",
        "editor": "openhands.tools.file_editor",
        "tasks": "openhands.tools.task_tracker",
    }
    gc.disable()  # a tenth of the time that this takes
    loaded = SimpleNamespace(**{short: importlib.import_module(name) for short, name in names.items()})
    gc.freeze()
    gc.enable()
    return loaded


def base_url(order: dict[str, Any]) -> str | None:
    """Where egress adds the key, as the sandbox's variables say; OpenAI's dialect has the version in its address."""
    anthropic = order["llm"]["model"].startswith("anthropic/")
    for name in ("LLM_BASE_URL", "ANTHROPIC_BASE_URL" if anthropic else "OPENAI_BASE_URL"):
        if found := os.environ.get(name):
            return found if anthropic or found.rstrip("/").endswith("/v1") else found.rstrip("/") + "/v1"
    return None
