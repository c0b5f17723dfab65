"""Events of a sandbox over HTTP, and what people say to it."""

from msgspec import Struct

from contracts.commands.agent import Text
from contracts.commands.sandbox import Reason
from contracts.ids import Token
from contracts.lacking import Lack
from contracts.message import Order
from contracts.queries import LoggedEvent


class EventPage(Struct, frozen=True, kw_only=True):
    events: tuple[LoggedEvent, ...]
    next: int
    """The cursor: ask with `from` of this for what follows, now or later."""
    more: bool
    """There was more at that moment."""
    lacking: tuple[Lack, ...] = ()
    """What is known to be missing between `from` and `next`: see `cloche audit`. Retention is no loss. Where `from` is
    behind the end of the log, that is what was there once: `next` is where it goes on."""
    head_sequence: int
    """The log's last sequence at that moment."""


class Message(Order, frozen=True, kw_only=True):
    """What an agent is told next."""

    text: Text
    run: Token | None = None
    """Absent = the run that is open."""


class UserMessage(Message, frozen=True, kw_only=True, tag="user.message", tag_field="type"):
    pass


class Guidance(Message, frozen=True, kw_only=True, tag="guidance", tag_field="type"):
    """Goes into the conversation before the next tool call, and changes no turn."""


class GuardianIntervention(Message, frozen=True, kw_only=True, tag="guardian_intervention", tag_field="type"):
    """Guidance by whoever watches over agents from outside. It is on record as theirs, not as the guardian's own."""


class Interrupt(Order, frozen=True, kw_only=True, tag="interrupt", tag_field="type"):
    """What the agent does now stops, and it waits to be told how to go on."""

    reason: Reason = "asked"
    run: Token | None = None


class Pause(Order, frozen=True, kw_only=True, tag="pause", tag_field="type"):
    """The agent's processes are frozen where they are."""

    reason: Reason = "asked"
    run: Token | None = None


class Resume(Order, frozen=True, kw_only=True, tag="resume", tag_field="type"):
    run: Token | None = None


class StopRun(Order, frozen=True, kw_only=True, tag="stop", tag_field="type"):
    """The run ends, and its process with it."""

    reason: Reason = "asked"
    run: Token | None = None


class Approve(Order, frozen=True, kw_only=True, tag="approve", tag_field="type"):
    """Let the agent make a tool call."""

    approval: Token
    reason: Reason = ""
    remember: bool = False


class Reject(Order, frozen=True, kw_only=True, tag="reject", tag_field="type"):
    """The reason is told to the agent."""

    approval: Token
    reason: Reason = ""


class ApproveNetwork(Order, frozen=True, kw_only=True, tag="network.approve", tag_field="type"):
    """Let the sandbox reach a host that it asked for in `network.asked`."""

    approval: Token
    reason: Reason = ""
    remember: bool = False
    """For as long as the sandbox exists."""


class RejectNetwork(Order, frozen=True, kw_only=True, tag="network.reject", tag_field="type"):
    approval: Token
    reason: Reason = ""
    remember: bool = False
    """The host is denied from now on without asking."""


Said = (
    UserMessage
    | Guidance
    | GuardianIntervention
    | Interrupt
    | Pause
    | Resume
    | StopRun
    | Approve
    | Reject
    | ApproveNetwork
    | RejectNetwork
)
"""Told apart by `type`."""
