"""What a sandbox order means, given what the log says. Pure."""

import datetime
from enum import StrEnum
from typing import NamedTuple

from contracts.commands import sandbox as orders
from contracts.errors import ClocheError, Conflict, Invalid, SandboxInvalidState, SandboxNotFound
from contracts.message import Order
from contracts.nodes import DRAINED, NodeRecord, Standing
from contracts.recovery import attempts_used, is_recovering
from contracts.state import SandboxState, Status


class Step(StrEnum):
    NOTHING = "nothing"
    """It is so already."""
    CREATE = "create"
    FINISH_CREATING = "finish_creating"
    START = "start"
    FINISH_STARTING = "finish_starting"
    """It runs by this very order, and may have found no room at its place in the log."""
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    THAW = "thaw"
    """It runs by the log; if it is frozen, nobody has come to say so."""
    REMOVE = "remove"
    SNAPSHOT = "snapshot"
    CHANGE_NETWORK = "change_network"
    RECOVER = "recover"
    FINISH_RECOVERING = "finish_recovering"
    GIVE_UP = "give_up"
    """It has died too often."""


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
    orders.ResumeSandbox: {Status.PAUSED: Step.RESUME, Status.RUNNING: Step.THAW},
    orders.SnapshotSandbox: {
        Status.RUNNING: Step.SNAPSHOT,
        Status.PAUSED: Step.SNAPSHOT,
        Status.STOPPED: Step.SNAPSHOT,
    },
    orders.ChangeNetwork: {
        Status.RUNNING: Step.CHANGE_NETWORK,
        Status.PAUSED: Step.CHANGE_NETWORK,
        Status.STOPPED: Step.CHANGE_NETWORK,
    },
    orders.RemoveSandbox: {
        Status.CREATING: Step.REMOVE,
        Status.RUNNING: Step.REMOVE,
        Status.PAUSED: Step.REMOVE,
        Status.STOPPED: Step.REMOVE,
        Status.FAILED: Step.REMOVE,
        Status.REMOVED: Step.NOTHING,
    },
}


ALIVE = frozenset({Status.RUNNING, Status.PAUSED})


def decide(
    state: SandboxState | None,
    order: Order,
    *,
    sandbox: str,
    command: str,
    node: str,
    now: datetime.datetime,
    owner: NodeRecord | None = None,
) -> Decision:
    """The step to take; `refusal` is set when there is none, and may be retryable.

    `owner` is what the log says of the node that has the sandbox; None = nothing.
    """
    if isinstance(order, orders.CreateSandbox | orders.ForkSandbox):
        return _decide_create(state, sandbox=sandbox, command=command, node=node)
    if state is None:
        return _refuse(SandboxNotFound(f"there is no sandbox {sandbox!r}"))
    if state.recovery is not None and state.recovery.command == command and state.node == node and is_recovering(state):
        return Decision(Step.FINISH_RECOVERING)
    if _was_just_started(state, order, command) and state.node == node:
        return Decision(Step.FINISH_STARTING)
    if command in state.obeyed:
        return Decision(Step.NOTHING)
    if isinstance(order, orders.RecoverSandbox):
        owner = owner or NodeRecord(node=state.node)
        return _moved_on(state, order, owner, node=node) or _decide_recover(state, order, now=now)
    if state.node != node:
        return _refuse(SandboxInvalidState(f"sandbox {sandbox!r} belongs to node {state.node!r}, not {node!r}"))
    if type(order) not in _NEXT:
        return _refuse(Invalid(f"{type(order).__name__} is not available yet"))
    if isinstance(order, orders.StopSandbox) and order.instance is not None and not _lives(state, order.instance):
        return Decision(Step.NOTHING)
    if is_recovering(state) and isinstance(order, orders.StopSandbox):
        return Decision(Step.STOP)
    if state.status == Status.CREATING and not isinstance(order, orders.RemoveSandbox):
        return _refuse(Conflict(f"sandbox {sandbox!r} is still being {'recovered' if state.created else 'created'}"))
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


def _was_just_started(state: SandboxState, order: Order, command: str) -> bool:
    return isinstance(order, orders.StartSandbox) and state.status == Status.RUNNING and state.obeyed[-1:] == (command,)


def _lives(state: SandboxState, instance: str) -> bool:
    """It is still this life of it, as far as the log knows."""
    return state.instance == instance and state.status in ALIVE


def _moved_on(state: SandboxState, order: orders.RecoverSandbox, owner: NodeRecord, *, node: str) -> Decision | None:
    """An order that was given for one moment may come at another."""
    name = f"sandbox {state.sandbox!r}"
    if order.lost_sequence is not None and (owner.standing, owner.since) != (Standing.LOST, order.lost_sequence):
        return Decision(Step.NOTHING)
    if order.lifecycle_sequence is not None and state.lifecycle_sequence != order.lifecycle_sequence:
        words = f"{name} is {state.status} on node {state.node!r}: it has moved on since its recovery was ordered"
        return _refuse(SandboxInvalidState(words, status=state.status))
    if order.reason == DRAINED and state.node == node and not owner.standing.gives_away:
        return _refuse(SandboxInvalidState(f"{name} is to leave node {node!r}, which is no longer drained"))
    return None


def _decide_recover(state: SandboxState, order: orders.RecoverSandbox, *, now: datetime.datetime) -> Decision:
    """On any node: the one that asks first has it from then on."""
    if order.instance is not None:
        if not _lives(state, order.instance):
            return Decision(Step.NOTHING)
        spent = attempts_used(state, now) >= state.spec.restart.max_attempts
        return Decision(Step.GIVE_UP if spent else Step.RECOVER)
    if state.status == Status.CREATING and not state.created:
        return _refuse(Conflict(f"sandbox {state.sandbox!r} is still being created"))
    if state.status == Status.REMOVED or not state.created:
        reason = f"sandbox {state.sandbox!r} is {state.status}: there is nothing to recover"
        return _refuse(SandboxInvalidState(reason, status=state.status))
    return Decision(Step.RECOVER)


def _refuse(error: ClocheError) -> Decision:
    return Decision(Step.NOTHING, error)
