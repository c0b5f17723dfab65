"""What an answer to a question comes to. Pure."""

import datetime
from typing import NamedTuple

from contracts.approvals import Approvals
from contracts.commands.network import ApproveNetwork, RejectNetwork
from contracts.errors import Invalid
from contracts.events.network import NetworkApproved, NetworkRejected

GRANTED = datetime.timedelta(minutes=5)
"""Where it is not to be remembered."""

Order = ApproveNetwork | RejectNetwork


class Granted(NamedTuple):
    """What an approval was about."""

    host: str
    port: int


def answer(
    approvals: Approvals,
    order: Order,
    granted: Granted | None = None,
    *,
    command: str,
    by: str,
    at: datetime.datetime,
    now: datetime.datetime,
) -> NetworkApproved | NetworkRejected | None:
    """None where this very order was obeyed before. `at` is when it was given.

    One may change one's mind: what was ever approved can be rejected, for a tunnel may outlive the approval that it
    rests on; what was rejected can be approved while that holds. `granted` is what this approval allowed, if it did.
    Raises `Invalid` for what was never asked, has expired, or was answered so before.
    """
    allow = isinstance(order, ApproveNetwork)
    before = approvals.answered(order.approval)
    if before is not None and before.command == command:
        return None
    asked = approvals.asked(order.approval)
    if asked is not None and at >= asked.expires_at:
        raise Invalid(f"{order.approval!r} has expired: the next request for {asked.host}:{asked.port} asks again")
    about = asked or before or (None if allow else granted)
    if about is None:
        raise Invalid(f"{order.approval!r} is not a question that waits: it was never asked, or has expired")
    if before is not None and before.allowed == allow and before.holds(now):
        raise Invalid(f"{order.approval!r} was {'approved' if allow else 'rejected'} already")
    if allow:
        return NetworkApproved(
            approval=order.approval,
            host=about.host,
            port=about.port,
            reason=order.reason,
            remember=order.remember,
            until=None if order.remember else now + GRANTED,
            by=by,
        )
    return NetworkRejected(
        approval=order.approval, host=about.host, port=about.port, reason=order.reason, remember=order.remember, by=by
    )
