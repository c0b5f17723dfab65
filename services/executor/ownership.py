"""Whether this node may tell of a sandbox's commands, in the words by which the server holds others to it."""

from contracts import subjects
from contracts.errors import Conflict
from contracts.recovery import is_recovering
from contracts.state import SandboxState, Status
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.patience import patiently
from infra.bus.publisher import Expect
from infra.journal import Journal
from infra.lifecycles import Lifecycles


class NoLongerOurs(Conflict):
    """Another node speaks for the sandbox."""


class Ownership:
    """A sandbox changes hands by `sandbox.recovering` and by nothing else: as long as the last one is the one that we
    know of, nobody has claimed it since.
    """

    def __init__(self, bus: Bus, journal: Journal, lifecycles: Lifecycles) -> None:
        self._bus = bus
        self._journal = journal
        self._lifecycles = lifecycles
        self._known: dict[str, Expect] = {}

    def notice(self, state: SandboxState) -> None:
        """The log has news of it."""
        if is_recovering(state) or state.node != self._journal.node or state.status == Status.REMOVED:
            self._known.pop(state.sandbox, None)

    async def guard(self, sandbox: str) -> Expect:
        """As far as is known: the server tells who was mistaken. Raises `NoLongerOurs`, `Unavailable`."""
        if (known := self._known.get(sandbox)) is not None:
            return known
        state = self._lifecycles.get(sandbox)
        if state is not None and state.recovery is None:
            return Expect(subjects.claims(sandbox), 0)
        return await self.confirm(sandbox)

    async def confirm(self, sandbox: str) -> Expect:
        """As the log has it now. Raises `NoLongerOurs`, `Unavailable`."""
        # In this order: whoever claims it in between is seen, or refuted by the server.
        claim = await patiently(self._bus, lambda bus: reader.last(bus, subjects.claims(sandbox)))
        state = await self._journal.lifecycle(sandbox)
        if state is not None and state.node != self._journal.node:
            raise NoLongerOurs(f"node {state.node!r} has sandbox {sandbox!r} now")
        guard = self._known[sandbox] = Expect(subjects.claims(sandbox), 0 if claim is None else claim.seq)
        return guard
