"""What may be begun, and how. Pure."""

from typing import TypeVar

from contracts.agents import Agents, ApprovalRule, Verdict
from contracts.commands.agent import StartAgent
from contracts.errors import ClocheError, Conflict, SandboxInvalidState, SandboxNotFound
from contracts.events.agent import AgentStarted
from contracts.state import SandboxState, Status


def may_start(state: SandboxState | None, *, sandbox: str, node: str, open_run: str | None) -> ClocheError | None:
    """None when it may; otherwise why not. A retryable reason is worth asking again."""
    if state is None:
        return SandboxNotFound(f"there is no sandbox {sandbox!r}")
    if state.node != node:
        return SandboxInvalidState(f"sandbox {sandbox!r} belongs to node {state.node!r}, not {node!r}")
    if state.status == Status.CREATING:
        return Conflict(f"sandbox {sandbox!r} is still being created")
    if state.status != Status.RUNNING:
        return SandboxInvalidState(f"sandbox {sandbox!r} is {state.status}", status=state.status)
    if open_run is not None:
        return SandboxInvalidState(
            f"run {open_run!r} is open in sandbox {sandbox!r}: say something to it, or stop it first", run=open_run
        )
    return None


def approvals(order: StartAgent, settings: Agents) -> tuple[ApprovalRule, ...]:
    """The node's denials come first: nobody who starts an agent can lift them."""
    denials = tuple(rule for rule in settings.approvals if rule.verdict is Verdict.DENY)
    return (*denials, *order.approvals, *settings.approvals)


def started(order: StartAgent, run: str, settings: Agents, by: str = "") -> AgentStarted:
    """The run as it is begun: what the order leaves open is as the node's settings say, which also bound it."""
    return AgentStarted(
        run=run,
        runtime=order.runtime,
        prompt=order.prompt,
        model=order.model,
        resumed=order.resume,
        max_budget_usd=_least(order.max_budget_usd, settings.max_budget_usd),
        max_tokens=_least(order.max_tokens, settings.max_tokens),
        max_turns=_least(order.max_turns, settings.max_turns),
        timeout_ms=_least(order.timeout_ms, settings.timeout_ms),
        keep_open=order.keep_open,
        approvals=approvals(order, settings),
        approval_timeout_ms=order.approval_timeout_ms or settings.approval_timeout_ms,
        options=order.options,
        by=by,
    )


Bound = TypeVar("Bound", int, float)


def _least(asked: Bound | None, most: Bound | None) -> Bound | None:
    return min((each for each in (asked, most) if each is not None), default=None)
