"""What was said and done in the runs of a sandbox's agents, as a pure fold over its events, bounded."""

import json

from msgspec import Struct

from contracts.agents import subject_of
from contracts.events import agent, guardian
from contracts.message import EventHead, Fact, JsonObject, Time
from contracts.runs import from_guardian

KEPT = 200
"""Lines; earlier ones are counted, and stand in the log."""
BRIEF = 2000
"""Characters of one line."""
NAME = 200
"""Characters of what somebody is called: a tool, a run, a call."""
STREAMED = 20
"""Among so many last lines the beginning of a message is looked for that is told part by part."""


class Line(Struct, frozen=True, kw_only=True):
    sequence: int
    at: Time
    run: str
    kind: str
    """`prompt`, `message`, `thinking`, `tool_use`, `tool_result`, `asked`, `approved`, `rejected`, `user`, `note`."""
    who: str
    """`agent`, `user`, `guardian` or `system`."""
    text: str
    tool: str = ""
    call: str = ""
    """The tool call, or the approval that was asked for."""
    ok: bool | None = None
    message: str = ""
    """The same for all parts of one message."""
    partial: bool = False
    """There is more to come: this is what was told of it by then."""


class Conversation(Struct, frozen=True, kw_only=True):
    lines: tuple[Line, ...] = ()
    """The last ones, oldest first."""
    earlier: int = 0


def apply(conversation: Conversation, sequence: int, head: EventHead, fact: Fact) -> Conversation:
    """One event further. The same object where nothing changed."""
    if isinstance(fact, (agent.AgentMessage, agent.AgentThinking)):
        return _said(conversation, sequence, head, fact)
    line = _line(sequence, head, fact)
    return conversation if line is None else _with(conversation, line)


def brief(text: str, most: int = BRIEF) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _with(conversation: Conversation, line: Line) -> Conversation:
    lines = (*conversation.lines, line)
    return Conversation(lines=lines[-KEPT:], earlier=conversation.earlier + max(len(lines) - KEPT, 0))


def _said(
    conversation: Conversation, sequence: int, head: EventHead, fact: agent.AgentMessage | agent.AgentThinking
) -> Conversation:
    """Parts grow one line, which the whole then takes the place of."""
    kind = "message" if isinstance(fact, agent.AgentMessage) else "thinking"
    at = _begun(conversation, kind, fact)
    before = "" if at is None or not fact.partial else conversation.lines[at].text[: max(fact.offset, 0)]
    line = Line(
        sequence=sequence,
        at=head.time,
        run=brief(fact.run, NAME),
        kind=kind,
        who="agent",
        text=brief(before + fact.text),
        message=brief(fact.message, NAME),
        partial=fact.partial,
    )
    if at is None:
        return _with(conversation, line)
    lines = conversation.lines
    return Conversation(lines=(*lines[:at], line, *lines[at + 1 :]), earlier=conversation.earlier)


def _begun(conversation: Conversation, kind: str, fact: agent.AgentMessage | agent.AgentThinking) -> int | None:
    """Where the line is that tells the beginning of the same message."""
    if not fact.message:
        return None
    wanted = (kind, brief(fact.run, NAME), brief(fact.message, NAME))
    lines = conversation.lines
    for at in range(len(lines) - 1, max(len(lines) - STREAMED, 0) - 1, -1):
        each = lines[at]
        if each.partial and (each.kind, each.run, each.message) == wanted:
            return at
    return None


def _line(sequence: int, head: EventHead, fact: Fact) -> Line | None:
    told = _of_agent(fact) or _of_answers(fact) or _of_others(fact)
    if told is None:
        return None
    kind, who, text, tool, call, ok = told
    return Line(
        sequence=sequence,
        at=head.time,
        run=brief(getattr(fact, "run", None) or "", NAME),
        kind=kind,
        who=who,
        text=brief(text),
        tool=brief(tool, NAME),
        call=brief(call, NAME),
        ok=ok,
    )


_Told = tuple[str, str, str, str, str, bool | None]
"""Kind, who, text, tool, call, and whether it went well."""


def _told(kind: str, who: str, text: str, tool: str = "", call: str = "", ok: bool | None = None) -> _Told:
    return kind, who, text, tool, call, ok


def _of_agent(fact: Fact) -> _Told | None:
    match fact:
        case agent.AgentStarted():
            return _told("prompt", "user", fact.prompt)
        case agent.AgentToolUse():
            return _told("tool_use", "agent", _about(fact.input), fact.tool, fact.call)
        case agent.AgentToolResult():
            return _told("tool_result", "agent", fact.output, call=fact.call, ok=fact.ok)
        case agent.AgentApprovalRequested():
            why = f"{fact.reason}: " if fact.reason else ""
            return _told("asked", "agent", why + _about(fact.input), fact.tool, fact.approval)
    return None


def _of_answers(fact: Fact) -> _Told | None:
    match fact:
        case agent.AgentApproved():
            return _told("approved", _who(fact.by), fact.reason, call=fact.approval, ok=True)
        case agent.AgentRejected():
            reason = fact.reason or ("nobody answered in time" if fact.expired else "")
            return _told("rejected", _who(fact.by), reason, fact.tool, fact.approval, ok=False)
        case agent.UserMessage() | agent.UserGuidance():
            return _told("user", _who(fact.by), fact.text)
        case agent.UserInterrupt():
            return _told("user", _who(fact.by), f"interrupt: {fact.reason}")
    return None


def _of_others(fact: Fact) -> _Told | None:
    match fact:
        case agent.AgentAttached() if fact.attempt > 1:
            return _told("note", "system", f"goes on in a new process: {fact.reason}")
        case agent.AgentInterrupted():
            return _told("note", "system", f"interrupted: {fact.reason}")
        case agent.AgentPaused():
            return _told("note", "system", f"paused: {fact.reason}" if fact.reason else "paused")
        case agent.AgentResumed():
            return _told("note", "system", "resumed")
        case agent.AgentWaiting():
            return _told("note", "system", f"waits: {fact.reason}" if fact.reason else "waits for the next message")
        case agent.AgentCompleted():
            return _told("note", "system", f"ended: {fact.reason}", ok=fact.reason == "done")
        case agent.AgentError():
            how = "failed" if fact.final else "trouble"
            return _told("note", "system", f"{how}: {fact.failure.message}", ok=False)
        case guardian.GuardianIntervention():
            return _told("note", "guardian", f"{fact.rule}: {fact.step}: {fact.text}")
        case guardian.GuardianEscalated():
            return _told("note", "guardian", f"{fact.rule}: {fact.step}: {fact.reason}")
    return None


def _who(by: str) -> str:
    """Whoever it was: a rule of the settings is nobody."""
    if from_guardian(by):
        return "guardian"
    return "system" if by == "policy" else "user"


def _about(arguments: JsonObject) -> str:
    try:
        return subject_of(arguments) or (json.dumps(arguments, ensure_ascii=False)[:BRIEF] if arguments else "")
    except RecursionError:
        # It could just be read; nobody can write it out.
        return ""
