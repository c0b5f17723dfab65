"""One run of an agent, followed through the log."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from contracts import codec, runs, subjects
from contracts.errors import ClocheError, Failure, Invalid
from contracts.events import agent as facts
from contracts.message import EventHead, Fact
from contracts.runs import RunState
from infra.bus import reader
from infra.bus.connection import Bus


class RunEvent(NamedTuple):
    sequence: int
    subject: str
    head: EventHead
    fact: Fact | None
    """None for a kind that this version does not know, or data that cannot be read."""
    raw: bytes
    """Verbatim, as it stands in the log."""

    @property
    def ends_run(self) -> bool:
        return runs.ends(self.fact)


class AgentResult(Struct, frozen=True, kw_only=True):
    """How a run ended. A failed run is a result, not an exception."""

    run: str
    outcome: str
    """completed or error."""
    reason: str
    """`done`, `stopped: …`, `budget: …`; of an error its message."""
    result: str = ""
    """The agent's last words."""
    failure: Failure | None = None
    cost_usd: float = 0
    tokens: int = 0
    turns: int = 0
    tool_calls: int = 0
    duration_ms: float = 0
    sequence: int = 0


class AgentRun:
    """Every read starts at its beginning, or at a cursor: it may be followed again, late, or by somebody else."""

    def __init__(self, bus: Bus, sandbox: str, started: facts.AgentStarted, sequence: int) -> None:
        self._bus = bus
        self.sandbox = sandbox
        self.started = started
        self.first_sequence = sequence

    @property
    def id(self) -> str:
        return self.started.run

    async def events(
        self, start: int | None = None, *, follow: bool = False, also: Sequence[str] = ()
    ) -> AsyncIterator[RunEvent]:
        """What it says and does and is told, in the order of the log; with `follow`, live, until the run is over.

        `also`: kinds (`file.created`) or families (`network`) of the sandbox's other events, told among them.
        What is no event, or nested deeper than anybody can read, is passed over.
        """
        filters = subjects.events_of(self.sandbox, scope=self.id)
        if also:
            filters += subjects.typed(self.sandbox, also)
        async for entry in reader.read(self._bus, filters, start or self.first_sequence, follow=follow):
            event = read_event(entry)
            if event is None:
                continue
            yield event
            if follow and event.ends_run and subjects.parse_event(entry.subject).scope == self.id:
                return

    async def state(self) -> RunState:
        """As it stands now, in brief."""
        state: RunState | None = None
        async for event in self.events():
            state = self.fold(state, event)
        if state is None:
            raise Invalid(f"the log has forgotten how run {self.id!r} began")
        return state

    def fold(self, state: RunState | None, event: RunEvent) -> RunState | None:
        """One event of the run further."""
        if state is None:
            return runs.begin(event.sequence, event.head, self.started)
        return state if event.fact is None else runs.apply(state, event.head, event.fact)

    async def last_words(self) -> str:
        """The last whole message; empty where there is none."""
        words = ""
        async for entry in reader.read(
            self._bus, [subjects.event(self.sandbox, "agent.message", self.id)], self.first_sequence, follow=False
        ):
            event = read_event(entry)
            fact = None if event is None else event.fact
            if isinstance(fact, facts.AgentMessage) and not fact.partial and fact.parent is None:
                words = fact.text
        return words

    async def next_sequence(self) -> int:
        """Of whatever comes next in the log."""
        return (await reader.bounds(self._bus)).last + 1

    async def wait(self) -> AgentResult:
        """Until it is over."""
        state: RunState | None = None
        async for event in self.events(follow=True):
            state = self.fold(state, event)
            if state is not None and event.ends_run:
                return _result(state, event)
        raise ClocheError(f"the log ended before run {self.id!r} did")


def read_event(entry: reader.Entry) -> RunEvent | None:
    """None for what cannot be read as an event at all."""
    try:
        head = codec.decode_head(entry.data)
    except Invalid:
        return None
    try:
        fact = codec.decode_fact(head)
    except Invalid:
        fact = None
    return RunEvent(entry.seq, entry.subject, head, fact, entry.data)


def _result(state: RunState, event: RunEvent) -> AgentResult:
    fact = event.fact
    failed = fact.failure if isinstance(fact, facts.AgentError) else None
    return AgentResult(
        run=state.run,
        outcome="completed" if failed is None else "error",
        reason=getattr(fact, "reason", "") if failed is None else failed.message,
        result=getattr(fact, "result", ""),
        failure=failed,
        cost_usd=state.cost_usd,
        tokens=state.tokens,
        turns=state.turns,
        tool_calls=state.tool_calls,
        duration_ms=state.duration_ms,
        sequence=event.sequence,
    )
