"""Who may do what through the gateway."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from contracts.askers import GATEWAY
from contracts.ids import SandboxId, Token
from contracts.state import SandboxState

MAX_SUBJECT = 100

Subject = Annotated[str, Meta(min_length=1, max_length=MAX_SUBJECT, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*\Z")]
"""What somebody is called: it stands in the log as whoever asked."""

Moment = Annotated[int, Meta(ge=0, le=253_402_300_799)]
"""Seconds since 1970, of years with four digits."""


class Role(StrEnum):
    """Each may do what the one before it may."""

    VIEWER = "viewer"
    """Look at everything in its scope."""
    OPERATOR = "operator"
    """Make, steer and remove sandboxes, run commands, speak to agents, answer their questions, change files."""
    ADMIN = "admin"
    """What is about the whole of Cloche and not about a sandbox: its figures, and sandboxes that reach into a node."""

    def covers(self, needed: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


class Scope(Struct, frozen=True, kw_only=True):
    """The sandboxes that somebody sees. Others are not there for them."""

    projects: Annotated[tuple[Token, ...], Meta(max_length=20)] = ()
    """Of no other project, whatever else it says: what somebody makes counts for one of these."""
    sandboxes: Annotated[tuple[SandboxId, ...], Meta(max_length=1000)] = ()
    labels: Annotated[dict[str, str], Meta(max_length=50)] = {}

    @property
    def everything(self) -> bool:
        return not self.projects and self.of_whole_projects

    @property
    def of_whole_projects(self) -> bool:
        return not self.sandboxes and not self.labels

    def covers(self, state: SandboxState) -> bool:
        """One that is named, or one that has all of the labels; of its projects in any case."""
        if self.projects and state.spec.project_id not in self.projects:
            return False
        return self.of_whole_projects or state.sandbox in self.sandboxes or self._labelled(state.spec.labels)

    def _labelled(self, labels: dict[str, str]) -> bool:
        return bool(self.labels) and all(labels.get(key) == value for key, value in self.labels.items())


class Principal(Struct, frozen=True, kw_only=True):
    """Somebody whose token counts."""

    subject: Subject
    role: Role
    scope: Scope = Scope()
    expires_at: Moment | None = None

    @property
    def source(self) -> str:
        """As the `source` of the commands that they ask for."""
        return f"{GATEWAY}{self.subject}"
