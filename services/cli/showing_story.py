"""The story of a sandbox: its events, in their order, as things that happened. Pure, and bounded in memory."""

import collections
from collections.abc import Hashable
from typing import TypeVar

from contracts.agents import subject_of
from contracts.commands.command import Asker
from contracts.events import agent, audit, file, guardian, health, network, tool
from contracts.message import EventHead, Fact, JsonObject, Time
from infra.words.agent_summaries import TOO_DEEP
from infra.words.agent_summaries import plain as arguments_in_words
from services.cli.showing_commands import Commands
from services.cli.showing_groups import Files, Network
from services.cli.showing_items import Answered, Asked, Called, Item, Noticed, Ran, Returned, RunMoved, Said, Worked
from services.cli.showing_lifecycle import moved
from services.cli.showing_output import excerpt_of

REMEMBERED = 1000
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
TEXT = 20_000
"""Characters of anything that somebody said at once."""

_SILENT = (
    agent.AgentTranscript, agent.AgentMetrics, agent.AgentClosing, agent.AgentDelivered, agent.UserApprove,
    agent.UserReject, file.FileReady, file.FileManifest, network.NetworkAttached,
)  # fmt: skip
"""What others tell better, or nobody wants to know."""


class Story:
    def __init__(self, *, full: bool = False) -> None:
        self._full = full
        self._commands = Commands(full=full)
        self._files = Files(full=full)
        self._network = Network()
        self._tools: collections.OrderedDict[str, tuple[str, str]] = collections.OrderedDict()
        """Calls that have no result yet: the tool, and what it is about."""
        self._asked: collections.OrderedDict[str, tuple[str, Time]] = collections.OrderedDict()
        self._calls: collections.OrderedDict[str, str] = collections.OrderedDict()
        self._last_call: str | None = None
        """The tool call after which nothing else was told."""

    def feed(self, sequence: int, head: EventHead, fact: Fact) -> list[Item]:
        """What can be told now, in order."""
        family = head.type.partition(".")[0]
        if family == "command":
            told = self._commands.feed(sequence, head, fact)
            if head.type == "command.started":
                return [*self._bursts(), *told]
            return [*[each for each in told if not self._is_folded(each)], *self._bursts()] if told else []
        if family == "file" and not isinstance(fact, file.FileOverflow | file.FileError | file.FileReady):
            return self._files.feed(sequence, head, fact)
        if isinstance(fact, network.NetworkAllowed | network.NetworkBatch | network.NetworkDenied):
            self._network.feed(sequence, head, fact)
            return []
        if isinstance(fact, agent.AgentAttached):
            self._commands.is_process_of_an_agent(fact.process)
        told = self._strong(sequence, head, fact)
        return [*self._bursts(), *self._commands.begun(), *told] if told else []

    def end(self) -> list[Item]:
        return [*self._bursts(), *self._commands.rest()]

    def _bursts(self) -> list[Item]:
        return [*self._files.flush(), *self._network.flush()]

    def _strong(self, sequence: int, head: EventHead, fact: Fact) -> list[Item]:
        if isinstance(fact, _SILENT) or getattr(fact, "partial", False):
            return []
        item = self._agent(sequence, head, fact) if head.type.startswith("agent.") else None
        item = item or self._user(sequence, head, fact) or self._approval(sequence, head, fact)
        item = item or self._around(sequence, head, fact) or moved(sequence, head, fact)
        if item is None or self._is_folded(item):
            return []
        self._last_call = item.call if isinstance(item, Called) else None
        return [item]

    def _is_folded(self, item: Item) -> bool:
        """What an agent's tool call did, where the call itself tells it."""
        if self._full:
            return False
        match item:
            case Ran():
                return item.asker == Asker.AGENT and bool(self._tools)
            case Worked():
                return (item.tool, item.path) in self._tools.values()
        return False

    def _agent(self, sequence: int, head: EventHead, fact: Fact) -> Item | None:
        match fact:
            case agent.AgentThinking():
                return self._said(sequence, head, fact.run, "thought", fact.text) if self._full else None
            case agent.AgentMessage():
                return self._said(sequence, head, fact.run, "agent", fact.text, parent=fact.parent)
            case agent.AgentToolUse():
                _remember(self._tools, fact.call, (fact.tool, _about(fact.input)))
                return Called(
                    sequence=sequence,
                    at=head.time,
                    call=fact.call,
                    tool=fact.tool,
                    about=_about(fact.input),
                    run=fact.run,
                    parent=fact.parent,
                )
            case agent.AgentToolResult():
                return Returned(
                    sequence=sequence,
                    at=head.time,
                    call=fact.call,
                    tool=self._tools.pop(fact.call, ("", ""))[0],
                    ok=fact.ok,
                    output=excerpt_of(fact.output, full=self._full),
                    duration_ms=fact.duration_ms,
                    follows=self._last_call == fact.call,
                )
        return _run_moved(sequence, head, fact)

    def _said(
        self, sequence: int, head: EventHead, run: str, who: str, text: str, how: str = "", parent: str | None = None
    ) -> Said:
        shown = text[:TEXT]
        return Said(sequence=sequence, at=head.time, run=run, who=who, text=shown, how=how, parent=parent)

    def _user(self, sequence: int, head: EventHead, fact: Fact) -> Item | None:
        match fact:
            case agent.UserMessage():
                return self._said(sequence, head, fact.run, fact.by or "user", fact.text)
            case agent.UserGuidance():
                return self._said(sequence, head, fact.run, fact.by or "user", fact.text, "guides")
            case agent.UserInterrupt():
                return self._said(sequence, head, fact.run, fact.by or "user", fact.reason, "interrupts")
            case agent.UserPause():
                return self._said(sequence, head, fact.run, fact.by or "user", fact.reason, "pauses")
            case agent.UserResume():
                return self._said(sequence, head, fact.run, fact.by or "user", "", "resumes")
            case agent.UserStop():
                return self._said(sequence, head, fact.run, fact.by or "user", fact.reason, "stops")
        return None

    def _approval(self, sequence: int, head: EventHead, fact: Fact) -> Item | None:
        match fact:
            case agent.AgentApprovalRequested():
                what = f"{fact.tool} {_about(fact.input)}".strip()
                return self._ask(sequence, head, fact.approval, what, fact.reason)
            case network.NetworkAsked():
                return self._ask(sequence, head, fact.approval, f"{fact.method} {fact.host}:{fact.port}".strip(), "")
            case agent.AgentApproved() | agent.AgentRejected() | network.NetworkApproved() | network.NetworkRejected():
                known = self._asked.pop(fact.approval, None)
                what = known[0] if known else getattr(fact, "tool", "") or getattr(fact, "host", "")
                return Answered(
                    sequence=sequence,
                    at=head.time,
                    approval=fact.approval,
                    what=what,
                    allowed=isinstance(fact, agent.AgentApproved | network.NetworkApproved),
                    by=fact.by or "",
                    reason=fact.reason,
                    expired=getattr(fact, "expired", False),
                    waited_ms=None if known is None else (head.time - known[1]).total_seconds() * 1000,
                )
        return None

    def _ask(self, sequence: int, head: EventHead, approval: str, what: str, reason: str) -> Asked:
        _remember(self._asked, approval, (what[:TEXT], head.time))
        return Asked(sequence=sequence, at=head.time, approval=approval, what=what[:TEXT], reason=reason)

    def _around(self, sequence: int, head: EventHead, fact: Fact) -> Item | None:
        match fact:
            case tool.ToolInvoked():
                _remember(self._calls, fact.call, str(fact.arguments.get("path", ""))[:TEXT])
            case tool.ToolReturned():
                failure = "" if fact.failure is None else f"{fact.failure.message} ({fact.failure.code})"
                path = self._calls.pop(fact.call, "")
                return Worked(
                    sequence=sequence,
                    at=head.time,
                    tool=fact.tool,
                    path=path,
                    failure=failure,
                    duration_ms=fact.duration_ms,
                )
            case guardian.GuardianObserved() | guardian.GuardianIntervention() | guardian.GuardianEscalated():
                return _guarded(sequence, head, fact)
            case health.HealthDied():
                text = f"it died: {fact.cause}: {fact.detail}"
                return Noticed(
                    sequence=sequence, at=head.time, who="health", text=text, bad=True, last_output=fact.last_output
                )
            case health.HealthLimitExceeded():
                text = f"it went over its {fact.limit} limit: {fact.used:g} of {fact.allowed:g}; {fact.action}"
                return Noticed(sequence=sequence, at=head.time, who="health", text=text, bad=True)
            case health.HealthUnhealthy():
                return Noticed(sequence=sequence, at=head.time, who="health", text=f"not well: {fact.reason}", bad=True)
            case audit.DeadLetter():
                order = ".".join(fact.subject.split(".")[4:6]) or fact.subject
                text = f"an order was refused: {order}: {fact.reason.message} ({fact.reason.code})"
                return Noticed(sequence=sequence, at=head.time, who="order", text=text, bad=True)
            case network.NetworkUnattached():
                text = f"there is no way out: {fact.reason}"
                return Noticed(sequence=sequence, at=head.time, who="network", text=text, bad=True)
            case file.FileOverflow():
                return Noticed(sequence=sequence, at=head.time, who="files", text=fact.reason)
            case file.FileError():
                text = f"{fact.path}: {fact.failure.message}"
                return Noticed(sequence=sequence, at=head.time, who="files", text=text, bad=True)
        return None


def _run_moved(sequence: int, head: EventHead, fact: Fact) -> Item | None:
    match fact:
        case agent.AgentStarted():
            model = f" {fact.model}" if fact.model else ""
            resumed = f", goes on from {fact.resumed}" if fact.resumed else ""
            text = f"an agent begins: {fact.runtime}{model}{resumed}"
            return RunMoved(sequence=sequence, at=head.time, run=fact.run, text=text, detail=fact.prompt[:TEXT])
        case agent.AgentAttached() if fact.attempt > 1:
            text = f"it goes on in a new process (attempt {fact.attempt})"
            return RunMoved(sequence=sequence, at=head.time, run=fact.run, text=text, detail=fact.reason)
        case agent.AgentInterrupted():
            return RunMoved(sequence=sequence, at=head.time, run=fact.run, text=f"interrupted{_because(fact.reason)}")
        case agent.AgentPaused():
            return RunMoved(sequence=sequence, at=head.time, run=fact.run, text=f"paused{_because(fact.reason)}")
        case agent.AgentResumed():
            return RunMoved(sequence=sequence, at=head.time, run=fact.run, text="goes on")
        case agent.AgentWaiting():
            return RunMoved(sequence=sequence, at=head.time, run=fact.run, text="the agent waits for a message")
        case agent.AgentCompleted():
            done = fact.reason == "done"
            text = f"the agent is over: {fact.reason}"
            return RunMoved(sequence=sequence, at=head.time, run=fact.run, text=text, good=done)
        case agent.AgentError():
            what = "the agent failed" if fact.final else "the agent goes on after an error"
            text = f"{what}: {fact.failure.message} ({fact.failure.code})"
            return RunMoved(sequence=sequence, at=head.time, run=fact.run, text=text, detail=fact.detail, bad=True)
    return None


def _guarded(
    sequence: int,
    head: EventHead,
    fact: guardian.GuardianObserved | guardian.GuardianIntervention | guardian.GuardianEscalated,
) -> Noticed:
    match fact:
        case guardian.GuardianObserved():
            text = fact.finding
        case guardian.GuardianIntervention():
            text = f"{fact.step}: {fact.text}"
        case guardian.GuardianEscalated():
            text = f"{fact.step}: {fact.reason}"
    seen = f" (events {', '.join(map(str, fact.evidence[:5]))})" if fact.evidence else ""
    return Noticed(sequence=sequence, at=head.time, who=f"guardian {fact.rule}", text=f"{text}{seen}", bad=True)


def _about(arguments: JsonObject) -> str:
    try:
        return (subject_of(arguments) or (arguments_in_words(arguments) if arguments else ""))[:TEXT]
    except RecursionError:
        return TOO_DEEP


def _because(reason: str) -> str:
    return "" if reason in ("", "asked") else f": {reason}"


def _remember(known: "collections.OrderedDict[K, T]", key: K, value: T) -> None:
    known[key] = value
    if len(known) > REMEMBERED:
        known.popitem(last=False)
