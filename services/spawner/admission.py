"""Whether there is room for a sandbox in the quotas of its project and of whoever asks for it.

What is obviously too much is refused before anything is on record. What passes is put into the log, and its place there
decides: also between nodes that make sandboxes at the same moment.
"""

from typing import Protocol

from contracts.errors import QuotaExceeded
from contracts.spec import SandboxSpec
from contracts.state import SandboxState
from infra import clock
from infra.observing import denials
from infra.usage import Usage


class Admission(Protocol):
    async def before_creating(self, spec: SandboxSpec, by: str) -> None:
        """Raises `QuotaExceeded`."""

    async def before_starting(self, state: SandboxState) -> None:
        """A sandbox that is to run again. Raises `QuotaExceeded`; never for one that holds its place already."""

    async def verdict(self, sandbox: str, sequence: int) -> QuotaExceeded | None:
        """Whether the event at `sequence`, by which a sandbox is made or runs again, found no room at its place."""


class Unlimited:
    """Nobody has a quota, so nothing is counted."""

    async def before_creating(self, spec: SandboxSpec, by: str) -> None:
        pass

    async def before_starting(self, state: SandboxState) -> None:
        pass

    async def verdict(self, sandbox: str, sequence: int) -> QuotaExceeded | None:  # noqa: ARG002
        return None


class ByQuota:
    def __init__(self, usage: Usage) -> None:
        self._usage = usage

    async def before_creating(self, spec: SandboxSpec, by: str) -> None:
        if self._usage.ledger.would_create(spec, by, clock.now()) is None:
            return
        # Somebody may have made room a moment ago.
        refusal = (await self._usage.newest()).would_create(spec, by, clock.now())
        if refusal is not None:
            raise refusal

    async def before_starting(self, state: SandboxState) -> None:
        if self._usage.ledger.would_start(state.sandbox) is None:
            return
        refusal = (await self._usage.newest()).would_start(state.sandbox)
        if refusal is not None:
            raise refusal

    async def verdict(self, sandbox: str, sequence: int) -> QuotaExceeded | None:
        refusal = (await self._usage.reached(sequence)).verdict(sandbox)
        if refusal is not None:
            denials.failed("spawner", refusal.code)
        return refusal
