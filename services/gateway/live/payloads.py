"""What comes with an order over a WebSocket, where it is not just an order of the bus, and what comes of it."""

from enum import StrEnum

from msgspec import Struct

from contracts.commands import agent as agents
from contracts.message import Order
from contracts.state import Status


class Target(StrEnum):
    AGENT = "agent"
    SANDBOX = "sandbox"
    NETWORK = "network"


class Started(Struct, frozen=True, kw_only=True):
    exec: str


class Ordered(Struct, frozen=True, kw_only=True):
    command: str
    """The order's id: the `correlationid` of what comes of it."""


class Heard(Struct, frozen=True, kw_only=True):
    """It is on the log."""

    order: str
    run: str
    sequence: int


class Moved(Struct, frozen=True, kw_only=True):
    status: Status


class Pause(agents.PauseAgent, frozen=True, kw_only=True):
    target: Target = Target.AGENT


class Resume(agents.ResumeAgent, frozen=True, kw_only=True):
    target: Target = Target.AGENT


class Approve(agents.ApproveAgent, frozen=True, kw_only=True):
    target: Target = Target.AGENT


class Reject(agents.RejectAgent, frozen=True, kw_only=True):
    remember: bool = False
    """Of the network's only."""
    target: Target = Target.AGENT


class RequestFiles(Order, frozen=True, kw_only=True):
    path: str = ""
    recursive: bool = True
    at: int | None = None
    after: str | None = None
    limit: int = 1000


class RequestTerminal(Order, frozen=True, kw_only=True):
    exec: str | None = None
    at: int | None = None
    lines: int = 0
    """Above the screen."""
