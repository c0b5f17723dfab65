"""Facts about an agent run, and what people said to it on receipt. Written by the agent service."""

from contracts.errors import Failure
from contracts.message import Fact, JsonObject


class AgentStarted(Fact, frozen=True, kw_only=True):
    run: str
    runtime: str
    prompt: str
    model: str | None = None
    resumed: str | None = None
    max_budget_usd: float | None = None
    max_tokens: int | None = None
    """Of input and output together, what is cached left out."""
    max_turns: int | None = None
    timeout_ms: int | None = None
    """What the run may spend, as `agent.start` asked or the settings say. Absent = no such bound."""


class AgentThinking(Fact, frozen=True, kw_only=True):
    run: str
    text: str


class AgentMessage(Fact, frozen=True, kw_only=True):
    run: str
    text: str
    partial: bool = False


class AgentToolUse(Fact, frozen=True, kw_only=True):
    run: str
    call: str
    tool: str
    input: JsonObject = {}
    parent: str | None = None


class AgentToolResult(Fact, frozen=True, kw_only=True):
    run: str
    call: str
    ok: bool
    output: str
    truncated: bool = False
    duration_ms: float | None = None


class AgentApprovalRequested(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    tool: str
    input: JsonObject = {}
    expires_ms: int | None = None


class AgentApproved(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    by: str
    reason: str = ""


class AgentRejected(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    by: str
    reason: str = ""
    expired: bool = False


class AgentInterrupted(Fact, frozen=True, kw_only=True):
    run: str
    reason: str


class AgentMetrics(Fact, frozen=True, kw_only=True):
    """What was spent since the last of these: the run's cost is the sum of them all."""

    run: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0
    turns: int = 0


class AgentCompleted(Fact, frozen=True, kw_only=True):
    run: str
    reason: str
    result: str = ""


class AgentError(Fact, frozen=True, kw_only=True):
    run: str
    failure: Failure


class UserMessage(Fact, frozen=True, kw_only=True):
    run: str
    text: str
    delivered: str | None = None


class UserGuidance(Fact, frozen=True, kw_only=True):
    run: str
    text: str
    delivered: str | None = None


class UserInterrupt(Fact, frozen=True, kw_only=True):
    run: str
    reason: str


class UserApprove(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    reason: str = ""


class UserReject(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    reason: str = ""
