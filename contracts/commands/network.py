"""Answers to a sandbox that asked for a host it may not reach, taken by egress."""

from contracts.commands.sandbox import Reason
from contracts.ids import Token
from contracts.message import Order


class ApproveNetwork(Order, frozen=True, kw_only=True):
    approval: Token
    """As told in `network.asked`."""
    reason: Reason = ""
    remember: bool = False
    """For as long as the sandbox exists. Otherwise for what waits, and for a few minutes."""


class RejectNetwork(Order, frozen=True, kw_only=True):
    approval: Token
    reason: Reason = ""
    remember: bool = False
    """The host is denied from now on without asking."""
