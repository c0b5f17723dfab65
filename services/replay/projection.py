"""The read model: every sandbox's current state, folded from the log."""

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.message import EventHead
from contracts.queries import ListSandboxes, SandboxList
from contracts.state import SandboxState, Status, apply

BULK = {"command": ("input", "output")}
"""Kinds that carry bytes and change no state worth a read model: a command's totals come with its end."""


PAGE_BYTES = 700_000
"""A page of answers stays below what one message may hold."""


def filters() -> list[str]:
    """What the read model reads of the log."""
    wanted: list[str] = []
    for family, kinds in subjects.FAMILIES.items():
        if family not in BULK:
            wanted += subjects.events_of(family=family)
            continue
        wanted += [
            subjects.events_of(family=family, kind=kind, scope="*")[0] for kind in kinds if kind not in BULK[family]
        ]
    return wanted


class Projection:
    def __init__(self) -> None:
        self._states: dict[str, SandboxState] = {}
        self._dirty: set[str] = set()
        self.applied = 0

    def restore(self, state: SandboxState) -> None:
        self._states[state.sandbox] = state

    def apply(self, sequence: int, head: EventHead) -> None:
        """An event that this version cannot read changes nothing; the log still has it."""
        before = self._states.get(head.sandboxid)
        try:
            after = apply(before, sequence, head)
        except Invalid:
            after = before
        if after is not None and after is not before:
            self._states[head.sandboxid] = after
            self._dirty.add(head.sandboxid)
        self.applied = max(self.applied, sequence)

    def take_dirty(self) -> list[SandboxState]:
        """States that changed since the last call."""
        changed = [self._states[sandbox] for sandbox in self._dirty]
        self._dirty.clear()
        return changed

    def get(self, sandbox: str) -> SandboxState | None:
        return self._states.get(sandbox)

    def list(self, query: ListSandboxes) -> SandboxList:
        matching = sorted(
            (state for state in self._states.values() if _matches(state, query)), key=lambda state: state.sandbox
        )
        page = _within(matching[: query.limit])
        return SandboxList(sandboxes=tuple(page), applied_sequence=self.applied, more=len(matching) > len(page))


def _within(states: list[SandboxState]) -> list[SandboxState]:
    """As many as one message may hold, one at least."""
    size = 0
    for count, state in enumerate(states):
        size += len(codec.encode(state))
        if size > PAGE_BYTES and count:
            return states[:count]
    return states


def _matches(state: SandboxState, query: ListSandboxes) -> bool:
    spec = state.spec
    hidden = state.status == Status.REMOVED and not query.include_removed and query.status != Status.REMOVED
    return (
        not hidden
        and (query.after is None or state.sandbox > query.after)
        and query.status in (None, state.status)
        and query.project_id in (None, spec.project_id)
        and query.task_id in (None, spec.task_id)
        and query.agent_id in (None, spec.agent_id)
        and query.label.items() <= spec.labels.items()
    )
