"""One run, folded from its own events: what is known of it, and which keys are done."""

import asyncio
import contextlib
import datetime
from typing import NamedTuple

import msgspec
from msgspec import Struct

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events import agent as facts
from contracts.message import EventHead, Fact, JsonObject
from infra import clock
from infra.bus import headers, reader
from infra.bus.connection import Bus
from services.agent.digest import digest

RECENT = 1000
PROMPT = "prompt"
"""Where something is delivered that begins a turn."""


class Steer(NamedTuple):
    """What somebody said to a run."""

    order: str
    kind: str
    """message, guidance, or interrupt where the guardian's reason for one is told to the agent."""
    text: str
    by: str
    sequence: int

    @property
    def shown(self) -> str:
        """As the agent sees it in the middle of a turn."""
        who = "[GUARDIAN]" if from_guardian(self.by) else "[USER]"
        # The guardian signs its words itself; nobody else can sign for it.
        return self.text if self.text.startswith(who) else f"{who} {self.text}"


class Interrupt(NamedTuple):
    order: str
    reason: str
    by: str
    sequence: int


class Pending(NamedTuple):
    approval: str
    tool: str
    subject: str
    call: str | None
    asked_at: datetime.datetime
    expires: float | None
    """By the steady clock."""


class Answer(NamedTuple):
    """To a tool call that needed leave."""

    allowed: bool
    by: str
    reason: str = ""
    expired: bool = False


class Spent(Struct):
    cost_usd: float = 0
    tokens: int = 0
    turns: int = 0


def sameness(arguments: JsonObject) -> str:
    """What makes two calls of a tool the same: all of their arguments."""
    try:
        return digest(msgspec.json.encode(arguments, order="deterministic").decode())
    except (ValueError, TypeError, RecursionError, OverflowError):
        return digest(repr(type(arguments)), str(id(arguments)))


def from_guardian(by: str) -> bool:
    return by.split("/")[0] == "guardian"


class Record:
    """Folded as it is written: whoever appends an event of the run applies it here in the same breath."""

    def __init__(self, sandbox: str, started: facts.AgentStarted, sequence: int, at: datetime.datetime) -> None:
        self.sandbox = sandbox
        self.started = started
        self.started_at = at
        self.began = clock.steady_at(at)
        self.first_sequence = sequence
        self.sequence = sequence
        """Of its newest event."""
        self.attempt = 0
        self.process: str | None = None
        self.story = ""
        """Why there is an attempt after the first."""
        self.queued: dict[str, Steer] = {}
        """Said and not delivered, in order, by the order's id."""
        self.delivered: dict[str, list[Steer]] = {}
        """By key."""
        self.said: dict[str, Steer] = {}
        self.interrupts: dict[str, Interrupt] = {}
        """Not acknowledged."""
        self.pending: dict[str, Pending] = {}
        self.decided: dict[str, Answer] = {}
        """Decisions that came in and have not taken effect."""
        self.answers: dict[str, Answer] = {}
        self.remembered: set[tuple[str, str]] = set()
        self.pause_wanted = False
        self.pause_order = ""
        """The order that said so last, in either direction."""
        self.pause_reason = ""
        self.paused = False
        self.paused_since: float | None = None
        """By the steady clock."""
        self.paused_s = 0.0
        self.stop_asked: facts.UserStop | None = None
        self.waiting = False
        self.interrupted = False
        """Since its last turn began: then it waits to be told how to go on."""
        self.closed = False
        """Nobody here would hear what is said from now on."""
        self.intake = asyncio.Lock()
        """Held while something is received, and while it is decided that nothing more is."""
        self.spent = Spent()
        self.received: set[str] = set()
        """Ids of the orders that are on record."""
        self.ordered: set[str] = set()
        """Commands that this life has asked for and not seen the end of."""
        self.open_calls: set[str] = set()
        """Tool calls without a result."""
        self.calls: dict[str, tuple[str, datetime.datetime]] = {}
        """The tool and the beginning of each of them."""
        self.trace = ""
        """What the run is a part of, where somebody traces."""
        self.lately: list[Steer] = []
        """Delivered in the turn that is open."""
        self.ended = False
        self.told: set[str] = set()
        """Ids of events that an earlier life of this service has written: dropped as they come up again."""
        self.partial_told: dict[str, int] = {}
        """Characters of each message that were told in parts."""
        self._news = asyncio.Condition()
        self._recent: dict[str, None] = {}
        self.writing: dict[str, asyncio.Task[None]] = {}
        """Events on their way into the log, by id."""

    @property
    def run(self) -> str:
        return self.started.run

    def event_id(self, key: str) -> str:
        return f"{self.sandbox}.{self.run}.{digest(key)}"

    def is_written(self, name: str) -> bool:
        """Lately, by this very life."""
        return name in self._recent

    def note_written(self, name: str) -> None:
        self._recent[name] = None
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]

    async def changed(self) -> None:
        """Wait for the next event."""
        async with self._news:
            await self._news.wait()

    async def apply(self, sequence: int, head: EventHead, fact: Fact, at: float) -> None:
        self.fold(sequence, head, fact, at)
        async with self._news:
            self._news.notify_all()

    def fold(self, sequence: int, head: EventHead, fact: Fact, at: float) -> None:
        """`at`: when it was told, by the steady clock."""
        order = head.correlationid or ""
        self.sequence = max(self.sequence, sequence)
        if head.type.startswith("user."):
            self.received.add(order)
        match fact:
            case facts.AgentAttached():
                self.closed = self.closed and fact.attempt == self.attempt
                self.attempt, self.process, self.story = fact.attempt, fact.process, fact.reason
            case facts.AgentClosing():
                self.closed = True
            case facts.UserMessage() | facts.UserGuidance():
                kind = head.type.partition(".")[2]
                self._say(Steer(order, kind, fact.text, fact.by, sequence))
            case facts.UserInterrupt():
                self.interrupts[order] = Interrupt(order, fact.reason, fact.by, sequence)
                # Nobody who is frozen can stop what they do.
                self.pause_wanted, self.pause_order = False, order
                if from_guardian(fact.by):
                    self._say(Steer(order, "interrupt", fact.reason, fact.by, sequence))
            case facts.AgentDelivered():
                steer = self.queued.pop(fact.order, None) or self.said.get(fact.order)
                if steer is not None:
                    self.delivered.setdefault(fact.key, []).append(steer)
                    self.lately.append(steer)
                self.waiting = False
                if fact.where == PROMPT:
                    self.interrupted = False
            case facts.AgentInterrupted():
                self.interrupts.pop(fact.order or "", None)
                self.interrupted = True
            case facts.AgentApprovalRequested():
                expires = None if fact.expires_ms is None else at + fact.expires_ms / 1000
                subject = sameness(fact.input)
                self.pending[fact.approval] = Pending(fact.approval, fact.tool, subject, fact.call, head.time, expires)
            case facts.UserApprove():
                self._decide(fact.approval, Answer(True, fact.by or "user", fact.reason))
                asked = self.pending.get(fact.approval)
                if fact.remember and asked is not None:
                    self.remembered.add((asked.tool, asked.subject))
            case facts.UserReject():
                self._decide(fact.approval, Answer(False, fact.by or "user", fact.reason))
            case facts.AgentApproved():
                self._answer(fact.approval, Answer(True, fact.by, fact.reason))
            case facts.AgentRejected():
                self._answer(fact.approval, Answer(False, fact.by, fact.reason, fact.expired))
            case facts.UserPause():
                self.pause_wanted, self.pause_order, self.pause_reason = True, order, fact.reason
            case facts.UserResume():
                self.pause_wanted, self.pause_order = False, order
            case facts.AgentPaused():
                self.paused, self.paused_since = True, at
            case facts.AgentResumed():
                self._resumed(at)
            case facts.UserStop():
                self.stop_asked = fact
            case facts.AgentWaiting():
                self.waiting = True
                self.lately.clear()
            case facts.AgentMetrics():
                self.spent.cost_usd += fact.cost_usd
                self.spent.tokens += fact.input_tokens + fact.output_tokens
                self.spent.turns += fact.turns
                if fact.turns:
                    self.open_calls.clear()
                    self.calls.clear()
            case facts.AgentToolUse():
                self.open_calls.add(fact.call)
                self.calls[fact.call] = (fact.tool, head.time)
            case facts.AgentToolResult():
                self.open_calls.discard(fact.call)
                self.calls.pop(fact.call, None)
            case facts.AgentMessage(partial=True) | facts.AgentThinking(partial=True):
                whole = f"{head.type}/{fact.message}"
                self.partial_told[whole] = max(self.partial_told.get(whole, 0), fact.offset + len(fact.text))
            case facts.AgentCompleted():
                self.ended = True
            case facts.AgentError():
                self.ended = self.ended or fact.final

    def _say(self, steer: Steer) -> None:
        self.queued[steer.order] = self.said[steer.order] = steer

    def _decide(self, approval: str, answer: Answer) -> None:
        """The first word counts."""
        if approval not in self.answers:
            self.decided.setdefault(approval, answer)

    def _answer(self, approval: str, answer: Answer) -> None:
        self.pending.pop(approval, None)
        self.decided.pop(approval, None)
        self.answers[approval] = answer

    def _resumed(self, at: float) -> None:
        self.paused_s += self.pause_s(at)
        self.paused, self.paused_since = False, None

    def pause_s(self, now: float) -> float:
        """For how long it has been paused without a break; never less than nothing, whatever a clock said."""
        return 0.0 if self.paused_since is None else max(now - self.paused_since, 0.0)


async def is_begun(bus: Bus, sandbox: str, run: str) -> bool:
    """Waits out lost connections."""
    begun = await reader.patiently(bus, lambda bus: reader.last(bus, subjects.event(sandbox, "agent.started", run)))
    return begun is not None


async def told(bus: Bus, record: Record) -> set[str]:
    """Ids of all events that are on record."""
    ids: set[str] = set()
    filters = subjects.events_of(record.sandbox, scope=record.run)
    async for entry in reader.read(bus, filters, record.first_sequence, follow=False):
        with contextlib.suppress(Invalid):
            ids.add(codec.decode_head(entry.data).id)
    return ids


async def load(bus: Bus, sandbox: str, run: str) -> Record | None:
    """From the log; None where no such run was begun in this sandbox. Waits out lost connections."""
    begun = await reader.patiently(bus, lambda bus: reader.last(bus, subjects.event(sandbox, "agent.started", run)))
    if begun is None:
        return None
    record: Record | None = None
    async for entry in reader.read(bus, subjects.events_of(sandbox, scope=run), begun.seq, follow=False):
        try:
            head = codec.decode_head(entry.data)
            fact = codec.decode_fact(head)
        except Invalid:
            continue
        if isinstance(fact, facts.AgentStarted):
            record = record or Record(sandbox, fact, entry.seq, head.time)
            record.trace = record.trace or headers.get(entry.headers, b"traceparent") or ""
        if record is not None and fact is not None:
            record.told.add(head.id)
            record.fold(entry.seq, head, fact, clock.steady_at(head.time))
    return record
