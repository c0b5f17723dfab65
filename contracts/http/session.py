"""Who somebody is, over HTTP."""

from typing import Annotated

from msgspec import Meta, Struct

from contracts.access import Role, Scope
from contracts.message import Order, Time


class NewSession(Order, frozen=True, kw_only=True):
    token: Annotated[str, Meta(min_length=1, max_length=16_384)]


class Session(Struct, frozen=True, kw_only=True):
    subject: str
    role: Role
    scope: Scope
    expires_at: Time | None = None
    """Absent = with whatever gave the token."""
