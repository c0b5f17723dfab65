"""What a sandbox order means, given what the log says. Pure."""

from enum import StrEnum
from typing import NamedTuple

from contracts.commands import sandbox as orders
from contracts.errors import ClocheError, Conflict, Invalid, SandboxInvalidState, SandboxNotFound
from contracts.message import Order
from contracts.state import SandboxState, Status


class Step(StrEnum):
    NOTHING = "nothing"
    """It is so already."""
    CREATE = "create"
    FINISH_CREATING = "finish_creating"
    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    REMOVE = "remove"


class Decision(NamedTuple):
    step: Step
    refusal: ClocheError | None = None


_NEXT: dict[type[Order], dict[Status, Step]] = {
    orders.StartSandbox: {Status.STOPPED: Step.START, Status.RUNNING: Step.NOTHING},
    orders.StopSandbox: {
        Status.RUNNING: Step.STOP,
        Status.PAUSED: Step.STOP,
        Status.STOPPED: Step.NOTHING,
        Status.FAILED: Step.NOTHING,
    },
    orders.PauseSandbox: {Status.RUNNING: Step.PAUSE, Status.PAUSED: Step.NOTHING},
    orders.ResumeSandbox: {Status.PAUSED: Step.RESUME, Status.RUNNING: Step.NOTHING},
    orders.RemoveSandbox: {
        Status.CREATING: Step.REMOVE,
        Status.RUNNING: Step.REMOVE,
        Status.PAUSED: Step.REMOVE,
        Status.STOPPED: Step.REMOVE,
        Status.FAILED: Step.REMOVE,
        Status.REMOVED: Step.NOTHING,
    },
}


def decide(state: SandboxState | None, order: Order, *, sandbox: str, command: str, node: str) -> Decision:
    """The step to take; `refusal` is set when there is none, and may be retryable."""
    if isinstance(order, orders.CreateSandbox):
        return _decide_create(state, sandbox=sandbox, command=command, node=node)
    if state is None:
        return _refuse(SandboxNotFound(f"there is no sandbox {sandbox!r}"))
    if state.node != node:
        return _refuse(SandboxInvalidState(f"sandbox {sandbox!r} belongs to node {state.node!r}, not {node!r}"))
    if type(order) not in _NEXT:
        return _refuse(Invalid(f"{type(order).__name__} is not available yet"))
    if state.status == Status.CREATING and not isinstance(order, orders.RemoveSandbox):
        return _refuse(Conflict(f"sandbox {sandbox!r} is still being created"))
    step = _NEXT[type(order)].get(state.status)
    if step is None:
        return _refuse(SandboxInvalidState(f"sandbox {sandbox!r} is {state.status}", status=state.status))
    return Decision(step)


def _decide_create(state: SandboxState | None, *, sandbox: str, command: str, node: str) -> Decision:
    if state is None:
        return Decision(Step.CREATE)
    if state.requested_by != command:
        return _refuse(SandboxInvalidState(f"sandbox {sandbox!r} exists already", status=state.status))
    if state.status == Status.CREATING and state.node == node:
        return Decision(Step.FINISH_CREATING)
    return Decision(Step.NOTHING)


def _refuse(error: ClocheError) -> Decision:
    return Decision(Step.NOTHING, error)
