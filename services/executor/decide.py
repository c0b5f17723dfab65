"""May this command run here? Pure."""

from contracts.commands.command import RunCommand
from contracts.errors import ClocheError, Conflict, Invalid, SandboxInvalidState, SandboxNotFound
from contracts.spec import blocked_names
from contracts.state import SandboxState, Status


def may_run(state: SandboxState | None, order: RunCommand, *, sandbox: str, node: str) -> ClocheError | None:
    """None when it may; otherwise why not. A retryable reason is worth asking again."""
    if state is None:
        return SandboxNotFound(f"there is no sandbox {sandbox!r}")
    if state.node != node:
        return SandboxInvalidState(f"sandbox {sandbox!r} belongs to node {state.node!r}, not {node!r}")
    if state.status == Status.CREATING:
        return Conflict(f"sandbox {sandbox!r} is still being created")
    if state.status != Status.RUNNING:
        return SandboxInvalidState(f"sandbox {sandbox!r} is {state.status}", status=state.status)
    blocked = sorted(blocked_names(state.spec.environment) & set(order.env))
    if blocked:
        return Invalid(f"blocked in the environment: {', '.join(blocked)}")
    return None
