"""One call of a tool, as the tool has it."""

from collections.abc import Awaitable
from typing import NamedTuple, Protocol

from infra.bus.connection import Bus
from infra.client import Sandbox


class Report(Protocol):
    """Tells whoever waits how far it is; nothing happens where nobody asked to be told."""

    def __call__(self, progress: float, total: float | None, message: str | None) -> Awaitable[None]: ...


class Call(NamedTuple):
    bus: Bus
    sandbox: Sandbox
    """From the context."""
    report: Report
