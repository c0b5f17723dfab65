"""Pieces of the story of a run. What comes from agents is escaped here."""

import json

from rich.text import Text

from contracts.agents import subject_of
from contracts.events.agent import AgentMetrics
from contracts.message import JsonObject
from contracts.runs import RunState, from_guardian
from services.cli.agent_summaries import plain
from services.cli.escaping import printable

LONGEST = 2000
"""Characters of one line."""
SUBJECT = 200
LINES = 200
"""Of anything that somebody said at once."""
HEAD = 4
TAIL = 3
"""Lines of a result that are shown."""
FEW = 10


def lines_of(text: str, style: str, indent: str = "", lead: str = "") -> list[Text]:
    """All of it, `lead` before the first line and as much room before the others."""
    if not text.strip():
        return []
    found = text.expandtabs(4).rstrip().split("\n")
    leads = [lead, *[" " * len(lead)] * len(found)]
    shown = [f"{indent}{each}{printable(line, LONGEST)}" for each, line in zip(leads, found[:LINES], strict=False)]
    if len(found) > LINES:
        shown.append(f"{indent}… {len(found) - LINES} more lines")
    return [Text(line, style=style) for line in shown]


def result_lines(output: str, style: str) -> list[Text]:
    """The beginning and the end of what came out."""
    found = [line.rstrip() for line in output.expandtabs(4).split("\n")]
    found = [line for line in found if line]
    if len(found) > HEAD + TAIL + 1:
        left = f"… {len(found) - HEAD - TAIL} more lines"
        found = [*found[:HEAD], left, *found[-TAIL:]]
    return [Text(f"  {printable(line, SUBJECT)}", style=style or "dim") for line in found]


def about(arguments: JsonObject) -> Text:
    """What a tool call is about, as one line."""
    subject = subject_of(arguments) or (plain(arguments) if arguments else "")
    return Text(_first_line(subject) if subject else "")


def argument_lines(arguments: JsonObject, style: str) -> list[Text]:
    """The others beside the one that `about` shows, for somebody who has to decide: the beginning of each."""
    subject = subject_of(arguments)
    if not subject:
        return []
    others = {name: value for name, value in arguments.items() if value not in (subject, None, "")}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in others.items()}
    shown = [f"    {printable(name, SUBJECT)}:{_first_line(text)}" for name, text in texts.items()]
    return [Text(line, style=style) for line in shown[:FEW]]


def _first_line(text: str) -> str:
    first, *rest = text.strip().split("\n")
    return f"  {printable(first, SUBJECT)}{f'  (+{len(rest)} lines)' if rest else ''}"


def who(by: str) -> str:
    if from_guardian(by):
        return "guardian"
    return printable(by, SUBJECT) or "user"


def because(reason: str) -> str:
    return "" if reason in ("", "asked") else f": {printable(reason, LONGEST)}"


def seconds(duration_ms: float) -> str:
    return f"{duration_ms / 1000:.1f} s" if duration_ms < 120_000 else f"{duration_ms / 60_000:.1f} min"


def money(usd: float) -> str:
    return f"${usd:.4f}" if usd < 1 else f"${usd:,.2f}"


def spent(of: AgentMetrics | RunState) -> str:
    """Of a turn, or of a whole run."""
    tokens = of.input_tokens + of.output_tokens if isinstance(of, AgentMetrics) else of.tokens
    words = [f"{of.turns} turns"] if isinstance(of, RunState) and of.turns != 1 else []
    words += [f"{of.tool_calls} tool {'call' if of.tool_calls == 1 else 'calls'}"]
    words += [f"{tokens:,} tokens"] if tokens else []
    words += [money(of.cost_usd)] if of.cost_usd else []
    return ", ".join([*words, seconds(of.duration_ms)])
