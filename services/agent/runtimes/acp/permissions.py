"""What an agent asks leave for, and how an answer is said in its own options."""

from typing import Any, NamedTuple

from acp import schema

from contracts.message import JsonObject
from services.agent.approving import POLICY
from services.agent.record import Answer
from services.agent.runtimes.acp.envelope import Id

CANCELLED = {"outcome": {"outcome": "cancelled"}}
INTERRUPTED = "interrupted"
OVER = "its turn is over"
"""Why a question is taken back."""


class Permission(NamedTuple):
    request: Id
    number: int
    """Of the request in this talk."""
    call: str
    tool: str
    input: JsonObject
    options: tuple[schema.PermissionOption, ...]


def answer(permission: Permission, leave: Answer) -> dict[str, Any]:
    """By what is on record alone, so that every life of this service says the same."""
    if leave.by == POLICY and leave.reason in (INTERRUPTED, OVER):
        return CANCELLED
    return allowed(permission) if leave.allowed else denied(permission)


def allowed(permission: Permission, *, always: bool = False) -> dict[str, Any]:
    """An agent that offers no way to say yes is told no."""
    return _choice(permission, "allow", always=always)


def denied(permission: Permission) -> dict[str, Any]:
    return _choice(permission, "reject", always=False)


def _choice(permission: Permission, verb: str, *, always: bool) -> dict[str, Any]:
    """Once, unless asked for ever: "always" is the agent's own memory, which nobody could take back."""
    wanted = (f"{verb}_always", f"{verb}_once") if always else (f"{verb}_once", f"{verb}_always")
    for kind in wanted:
        for option in permission.options:
            if option.kind == kind:
                return {"outcome": {"outcome": "selected", "optionId": option.option_id}}
    return CANCELLED
