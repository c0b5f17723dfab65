"""The read model: every sandbox's current state, folded from the log."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.message import EventHead
from contracts.queries import ListSandboxes, SandboxList
from contracts.state import SandboxState, Sequenced, Status, apply
from infra.bus.page import Entry

BULK = {"command": ("input", "output")}
"""Kinds that carry bytes and change no state worth a read model: a command's totals come with its end."""


PAGE_BYTES = 700_000
"""A page of answers stays below what one message may hold."""


def filters(sandbox: str = "*") -> list[str]:
    """What the read model reads of the log."""
    wanted: list[str] = []
    for family, kinds in subjects.FAMILIES.items():
        if family not in BULK:
            wanted += subjects.events_of(sandbox, family=family)
            continue
        wanted += [
            subjects.events_of(sandbox, family=family, kind=kind, scope="*")[0]
            for kind in kinds
            if kind not in BULK[family]
        ]
    return wanted


def head_of(entry: Entry) -> EventHead:
    """Raises `Invalid`, also where an event says that it is of another sandbox than its subject does."""
    head = codec.decode_head(entry.data)
    if subjects.sandbox_of(entry.subject) != head.sandboxid:
        raise Invalid(f"an event of {head.sandboxid[:80]!r} on {entry.subject}")
    return head


class Projection:
    def __init__(self) -> None:
        self._states: dict[str, SandboxState] = {}
        self._dirty: set[str] = set()
        self._recordings: list[list[Sequenced]] = []
        self.applied = 0
        self.stored_at = ""
        """When the event with that sequence was stored: by that it is known again. Empty where nobody knows."""

    def restore(self, state: SandboxState) -> None:
        self._states[state.sandbox] = state

    def apply(self, sequence: int, head: EventHead) -> None:
        """An event that this version cannot read changes nothing; the log still has it."""
        for recorded in self._recordings:
            recorded.append(Sequenced(sequence, head))
        before = self._states.get(head.sandboxid)
        try:
            after = apply(before, sequence, head)
        except Invalid:
            after = before
        if after is not None and after is not before:
            self._states[head.sandboxid] = after
            self._dirty.add(head.sandboxid)
        self.applied = max(self.applied, sequence)

    def rewind(self, sequence: int) -> None:
        """Only up to there the log is known to be what was applied."""
        self.applied, self.stored_at = min(self.applied, sequence), ""

    @contextmanager
    def recording(self) -> Iterator[list[Sequenced]]:
        """Everything that is applied meanwhile."""
        recorded: list[Sequenced] = []
        self._recordings.append(recorded)
        try:
            yield recorded
        finally:
            # By identity: two that are empty are equal.
            self._recordings = [each for each in self._recordings if each is not recorded]

    def adopt(self, sandbox: str, state: SandboxState | None) -> bool:
        """Instead of what was known of it; None = nothing. Returns whether that is a change."""
        if self._states.get(sandbox) == state:
            return False
        if state is None:
            del self._states[sandbox]
            self._dirty.discard(sandbox)
        else:
            self._states[sandbox] = state
            self._dirty.add(sandbox)
        return True

    def take_dirty(self) -> list[SandboxState]:
        """States that changed since the last call."""
        changed = [self._states[sandbox] for sandbox in self._dirty]
        self._dirty.clear()
        return changed

    def mark(self, sandboxes: Iterable[str]) -> None:
        """As if they had changed."""
        self._dirty |= {sandbox for sandbox in sandboxes if sandbox in self._states}

    def is_dirty(self, sandbox: str) -> bool:
        return sandbox in self._dirty

    def all(self) -> Sequence[SandboxState]:
        return tuple(self._states.values())

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
