"""Orders to an agent run in a sandbox, taken by the agent service."""

from typing import Annotated

from msgspec import Meta

from contracts.commands.sandbox import Reason
from contracts.ids import Name, Token
from contracts.message import JsonObject, Order

Text = Annotated[str, Meta(min_length=1, max_length=500_000)]


class StartAgent(Order, frozen=True, kw_only=True):
    """The run's id is the id of this command."""

    runtime: Name
    prompt: Text
    resume: Token | None = None
    """An earlier run whose conversation goes on."""
    model: Name | None = None
    max_budget_usd: Annotated[float, Meta(gt=0)] | None = None
    max_turns: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    options: JsonObject = {}


class MessageAgent(Order, frozen=True, kw_only=True):
    text: Text
    run: Token | None = None


class GuideAgent(Order, frozen=True, kw_only=True):
    text: Text
    run: Token | None = None


class InterruptAgent(Order, frozen=True, kw_only=True):
    reason: Reason = "asked"
    run: Token | None = None


class ApproveAgent(Order, frozen=True, kw_only=True):
    approval: Token
    reason: Reason = ""
    remember: bool = False


class RejectAgent(Order, frozen=True, kw_only=True):
    approval: Token
    reason: Reason = ""


class PauseAgent(Order, frozen=True, kw_only=True):
    run: Token | None = None


class ResumeAgent(Order, frozen=True, kw_only=True):
    run: Token | None = None
