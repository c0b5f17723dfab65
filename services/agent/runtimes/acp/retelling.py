"""A conversation in words, for an agent that cannot be given it back otherwise. Pure."""

from collections.abc import Sequence

from contracts.agents import subject_of
from contracts.events import agent as facts
from contracts.message import Fact

MOST = 60_000
EACH = 4000
BEGINNING = "What was said and done in this conversation before you came:"


def retold(conversation: Sequence[Fact]) -> str:
    """The end of it where it is long; empty where there is nothing to tell."""
    lines: list[str] = []
    size = 0
    for fact in reversed(conversation):
        line = _line(fact)
        size += len(line)
        if size > MOST:
            lines.append("…")
            break
        if line:
            lines.append(line)
    return "\n".join([BEGINNING, *reversed(lines)]) if lines else ""


def _line(fact: Fact) -> str:
    match fact:
        case facts.AgentStarted():
            return f"You were asked: {_cut(fact.prompt)}"
        case facts.UserMessage():
            return f"You were told: {_cut(fact.text)}"
        case facts.AgentMessage():
            return f"You said: {_cut(fact.text)}"
        case facts.AgentToolUse():
            return f"You used {fact.tool}: {_cut(subject_of(fact.input) or str(fact.input.get('title', '')))}"
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= EACH else text[:EACH] + "…"
