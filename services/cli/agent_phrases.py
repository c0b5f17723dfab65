"""Pieces of the story of a run. What comes from agents is escaped here."""

from rich.text import Text

from contracts.agents import subject_of
from contracts.askers import asker
from contracts.events.agent import AgentMetrics
from contracts.message import JsonObject
from contracts.runs import RunState, from_guardian
from infra.words.agent_summaries import TOO_DEEP, plain
from infra.words.escaping import printable
from services.cli.agent_gutter import GUTTER, below, straight

LONGEST = 2000
"""Characters of one line."""
SUBJECT = 200
LINES = 200
"""Of anything that somebody said at once."""
HEAD = 4
TAIL = 3
"""Lines of a result that are shown."""


def lines_of(text: str, style: str, indent: str = "", lead: str = "") -> list[Text]:
    """All of it, `lead` before the first line where there is one, a gutter before the others."""
    if not text.strip():
        return []
    found = straight(text).rstrip().split("\n")
    leads = [lead or GUTTER, *[below(lead or GUTTER)] * len(found)]
    shown = [f"{indent}{each}{printable(line, LONGEST)}" for each, line in zip(leads, found[:LINES], strict=False)]
    if len(found) > LINES:
        shown.append(f"{indent}… {len(found) - LINES} more lines")
    return [Text(line, style=style) for line in shown]


def result_lines(output: str, style: str) -> list[Text]:
    """The beginning and the end of what came out."""
    found = [line.rstrip() for line in straight(output).split("\n")]
    lines = [f"  {GUTTER}{printable(line, SUBJECT)}" for line in found if line]
    if len(lines) > HEAD + TAIL + 1:
        left = f"  … {len(lines) - HEAD - TAIL} more lines"
        lines = [*lines[:HEAD], left, *lines[-TAIL:]]
    return [Text(line, style=style or "dim") for line in lines]


def about(arguments: JsonObject) -> Text:
    """What a tool call is about, as one line."""
    try:
        subject = subject_of(arguments) or (plain(arguments) if arguments else "")
    except RecursionError:
        subject = TOO_DEEP
    first, *rest = subject.strip().split("\n")
    more = f"  (+{len(rest)} lines)" if rest else ""
    return Text(f"  {printable(straight(first), SUBJECT)}{more}" if subject else "")


def who(by: str) -> str:
    if from_guardian(by):
        return "guardian"
    return printable(asker(by), SUBJECT) or "user"


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
