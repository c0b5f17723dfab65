"""What a client may ask for over a WebSocket."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from msgspec import Struct

from contracts import codec
from contracts.access import Principal, Role
from contracts.commands import agent as agents
from contracts.commands.command import InputCommand, ResizeCommand, RunCommand, SignalCommand
from contracts.commands.network import ApproveNetwork, RejectNetwork
from contracts.commands.sandbox import PauseSandbox, ResumeSandbox
from contracts.errors import Invalid, SandboxInvalidState
from contracts.history import FilesAt, ListFilesAt
from contracts.message import Order
from contracts.screens import GetScreen, Screen
from contracts.state import Status
from infra.client.imported import ImportedSandbox
from infra.client.orders import publish
from infra.client.sandbox import Sandbox, settled
from infra.client.screens import screen_at
from infra.ids import new_id
from services.gateway.desk import Desk
from services.gateway.live.frames import CommandFrame
from services.gateway.live.payloads import (
    Approve,
    Heard,
    Moved,
    Ordered,
    Pause,
    Reject,
    RequestFiles,
    RequestTerminal,
    Resume,
    Started,
    Target,
)
from services.gateway.routes.naming import order_id
from services.gateway.routes.recorded import ask_files, flushed

COMMANDS, AGENTS, QUESTIONS = "commands", "agents", "questions"
PATIENCE_S = {COMMANDS: 30.0, AGENTS: 60.0, QUESTIONS: 120.0}
"""In each lane, for an order to come to something."""


class Asked(NamedTuple):
    """An order on its way."""

    desk: Desk
    principal: Principal
    sandbox: Sandbox
    key: str | None

    def id(self, what: str) -> str | None:
        return None if self.key is None else order_id(self.principal, self.key, f"{what} {self.sandbox.id}")

    async def publish(self, order: Order, id: str | None = None) -> str:  # noqa: A002
        if isinstance(self.sandbox, ImportedSandbox):
            raise SandboxInvalidState(f"sandbox {self.sandbox.id!r} was imported: it can only be read")
        return await publish(self.desk.bus, self.sandbox.state.node, self.sandbox.id, order, id=id)


async def _run(asked: Asked, order: RunCommand) -> Started:
    return Started(exec=await asked.publish(order, asked.id("run") or new_id("e")))


async def _passed(asked: Asked, order: Order) -> Ordered:
    return Ordered(command=await asked.publish(order, asked.id(type(order).__name__)))


async def _said(asked: Asked, order: Order) -> Heard:
    said = await asked.sandbox.agent.say(order, id=asked.id(type(order).__name__))
    return Heard(order=said.order, run=said.run, sequence=said.sequence)


async def _moved(asked: Asked, order: Order, wanted: Status) -> Moved:
    command = await _passed(asked, order)
    return Moved(status=(await settled(asked.desk.bus, command.command, {wanted}, asked.sandbox.state)).status)


async def _pause(asked: Asked, order: Pause) -> Heard | Moved:
    if order.target == Target.SANDBOX:
        return await _moved(asked, PauseSandbox(), Status.PAUSED)
    _allow(order.target, Target.AGENT)
    return await _said(asked, agents.PauseAgent(reason=order.reason, run=order.run))


async def _resume(asked: Asked, order: Resume) -> Heard | Moved:
    if order.target == Target.SANDBOX:
        return await _moved(asked, ResumeSandbox(), Status.RUNNING)
    _allow(order.target, Target.AGENT)
    return await _said(asked, agents.ResumeAgent(run=order.run))


async def _approve(asked: Asked, order: Approve) -> Heard | Ordered:
    if order.target == Target.NETWORK:
        answer = ApproveNetwork(approval=order.approval, reason=order.reason, remember=order.remember)
        return await _passed(asked, answer)
    _allow(order.target, Target.AGENT)
    leave = agents.ApproveAgent(approval=order.approval, reason=order.reason, remember=order.remember)
    return await _said(asked, leave)


async def _reject(asked: Asked, order: Reject) -> Heard | Ordered:
    if order.target == Target.NETWORK:
        answer = RejectNetwork(approval=order.approval, reason=order.reason, remember=order.remember)
        return await _passed(asked, answer)
    _allow(order.target, Target.AGENT)
    return await _said(asked, agents.RejectAgent(approval=order.approval, reason=order.reason))


async def _files(asked: Asked, wanted: RequestFiles) -> FilesAt:
    if wanted.at is None:
        await flushed(asked.desk, asked.sandbox)
    raw = codec.encode({"sandbox": asked.sandbox.id} | {key: getattr(wanted, key) for key in wanted.__struct_fields__})
    query: ListFilesAt = codec.decode(raw, ListFilesAt)
    answer: FilesAt = await ask_files(asked.desk, query, FilesAt)
    return answer


async def _terminal(asked: Asked, wanted: RequestTerminal) -> Screen:
    raw = codec.encode({"sandbox": asked.sandbox.id, "exec": wanted.exec, "at": wanted.at, "scrollback": wanted.lines})
    query: GetScreen = codec.decode(raw, GetScreen)
    return await screen_at(asked.desk.bus, asked.sandbox.id, query.exec, query.at, query.scrollback)


class Known(NamedTuple):
    lane: str
    payload: type[Order]
    carry_out: Callable[[Asked, Any], Awaitable[Struct]]
    needed: Role = Role.OPERATOR


ORDERS: dict[str, Known] = {
    "run": Known(COMMANDS, RunCommand, _run),
    "input": Known(COMMANDS, InputCommand, _passed),
    "resize": Known(COMMANDS, ResizeCommand, _passed),
    "signal": Known(COMMANDS, SignalCommand, _passed),
    "send_message": Known(AGENTS, agents.MessageAgent, _said),
    "guidance": Known(AGENTS, agents.GuideAgent, _said),
    "interrupt": Known(AGENTS, agents.InterruptAgent, _said),
    "pause": Known(AGENTS, Pause, _pause),
    "resume": Known(AGENTS, Resume, _resume),
    "approve": Known(AGENTS, Approve, _approve),
    "reject": Known(AGENTS, Reject, _reject),
    "request_files": Known(QUESTIONS, RequestFiles, _files, Role.VIEWER),
    "request_terminal": Known(QUESTIONS, RequestTerminal, _terminal, Role.VIEWER),
}


def lane_of(command: str) -> str:
    """Raises `Invalid`."""
    if command not in ORDERS:
        raise Invalid(f"unknown command {command[:80]!r}: one of {', '.join(ORDERS)}")
    return ORDERS[command].lane


async def carry_out(desk: Desk, principal: Principal, sandbox: str, frame: CommandFrame) -> Struct:
    """Returns what came of it. Raises the reason when it was refused; also what `Desk.sandbox` raises.

    Whoever may not order it is told that first, whatever they say.
    """
    known = ORDERS[frame.command]
    found = await desk.sandbox(principal, sandbox, known.needed)
    order = codec.decode(frame.payload, known.payload)
    return await known.carry_out(Asked(desk, principal, found, frame.key), order)


def _allow(target: Target, *known: Target) -> None:
    if target not in known:
        raise Invalid(f"`target`: this is not for the {target}")
