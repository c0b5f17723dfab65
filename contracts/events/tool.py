"""Facts about file operations asked for over rpc, written by the executor."""

from contracts.errors import Failure
from contracts.message import Fact, JsonObject


class ToolInvoked(Fact, frozen=True, kw_only=True):
    call: str
    tool: str
    arguments: JsonObject = {}
    by: str = ""
    """Who asked for it, such as `gateway/alice`."""


class ToolReturned(Fact, frozen=True, kw_only=True):
    call: str
    tool: str
    duration_ms: float
    summary: JsonObject = {}
    """Counts and sizes, no bulk content."""
    failure: Failure | None = None
