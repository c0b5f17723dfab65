"""Orders to an agent run in a sandbox, taken by the agent service."""

from typing import Annotated

from msgspec import Meta

from contracts.agents import TypedRule
from contracts.commands.sandbox import Reason
from contracts.ids import Name, Token
from contracts.message import JsonObject, Order

Text = Annotated[str, Meta(min_length=1, max_length=500_000)]


class StartAgent(Order, frozen=True, kw_only=True):
    """The run's id is the id of this command. One run is open in a sandbox at a time."""

    runtime: Name
    prompt: Text
    resume: Token | None = None
    """An earlier run, of this sandbox or of the one that it was forked from, whose conversation goes on."""
    keep_open: bool = False
    """When its turn is over it waits for the next message; otherwise it is then completed."""
    approvals: Annotated[tuple[TypedRule, ...], Meta(max_length=200)] = ()
    """The first that matches a tool call decides; where none does, the node's settings do."""
    approval_timeout_ms: Annotated[int, Meta(ge=1, le=2_592_000_000)] | None = None
    """What is not answered by then is denied. Absent = as the node's settings say."""
    model: Name | None = None
    max_budget_usd: Annotated[float, Meta(gt=0)] | None = None
    max_turns: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    options: JsonObject = {}
    """What only this runtime knows."""


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
    """Its processes are frozen where they are."""

    reason: Reason = "asked"
    run: Token | None = None


class ResumeAgent(Order, frozen=True, kw_only=True):
    run: Token | None = None


class StopAgent(Order, frozen=True, kw_only=True):
    """The run ends, and its process with it."""

    reason: Reason = "asked"
    run: Token | None = None
