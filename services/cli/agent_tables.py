"""Runs, and what waits for an answer, as tables and paragraphs. What comes from agents is escaped."""

import datetime
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.agents import ApprovalRule
from contracts.events.agent import AgentStarted
from contracts.runs import RunState, RunStatus
from infra.client.agent import Asked
from infra.words.escaping import printable
from services.cli.agent_phrases import SUBJECT, lines_of, money, seconds, spent
from services.cli.agent_question import STYLE, question_lines
from services.cli.agent_screen import print_lines

WIDE = 1000
SHORT = 60
NUMBERS = ("TURNS", "TOOLS", "TOKENS", "COST")
STYLES = {
    RunStatus.RUNNING: "green",
    RunStatus.WAITING: "yellow",
    RunStatus.PAUSED: "yellow",
    RunStatus.COMPLETED: "",
    RunStatus.FAILED: "red",
}


class Asking(NamedTuple):
    """A tool call that waits for leave, and where."""

    sandbox: str
    asked: Asked


def print_runs(runs: Iterable[RunState]) -> None:
    table = _table("RUN", "RUNTIME", "STATUS", "STARTED", "TURNS", "TOOLS", "TOKENS", "COST", "PROMPT")
    for run in runs:
        table.add_row(
            run.run,
            printable(run.runtime),
            Text(str(run.status), style=STYLES[run.status]),
            _time(run.started_at),
            str(run.turns),
            str(run.tool_calls),
            f"{run.tokens:,}",
            money(run.cost_usd),
            Text(_short(run.prompt)),
        )
    _print(table)


def print_pending(found: Sequence[Asking], now: datetime.datetime, *, whole: bool) -> None:
    """All that one needs to decide. `whole`: however much that is."""
    print_lines(line for asking in found for line in _asking(asking, now, whole=whole))


def _asking(asking: Asking, now: datetime.datetime, *, whole: bool) -> list[Text]:
    sandbox, asked = asking
    request = asked.request
    left = None if request.expires_ms is None else request.expires_ms - (now - asked.at).total_seconds() * 1000
    expires = "" if left is None else f", denied unless answered in {seconds(max(0.0, left))}"
    head = f"{sandbox} {printable(request.approval)}: asked {_left(now, asked.at)} ago{expires}"
    reason = f"  reason given: {printable(request.reason, SUBJECT)}"
    return [
        Text(head, style="bold"),
        *question_lines(request, f"cloche agent pending {sandbox}", whole=whole),
        *([Text(reason, style=STYLE)] if request.reason else []),
    ]


def print_run(sandbox: str, state: RunState, started: AgentStarted, result: str) -> None:
    last = lines_of(result, "", "  ")
    heading = [Text(""), Text("Its last words:", style="bold")] if last else []
    print_lines([*_facts(sandbox, state), *_bounds(started), *_waiting(sandbox, state), *heading, *last])


def _facts(sandbox: str, state: RunState) -> list[Text]:
    why = f": {printable(state.reason)}" if state.reason else ""
    verb = "has" if state.status == RunStatus.FAILED else "is"
    head = Text.assemble(f"run {state.run} {verb} ", (f"{state.status}{why}", STYLES[state.status]))
    ended = f", ended {_time(state.ended_at)}" if state.ended_at else ""
    model = f", model {printable(state.model)}" if state.model else ""
    lines = [
        head,
        Text(f"  runtime   {printable(state.runtime)}{model}"),
        Text(f"  started   {_time(state.started_at)}{ended}"),
        Text(f"  spent     {spent(state)}"),
        Text(f"  prompt    {printable(state.prompt)}"),
    ]
    if state.resumed:
        lines.append(Text(f"  goes on   from run {printable(state.resumed)}"))
    if state.process:
        attempt = f"attempt {state.attempt}: " if state.attempt > 1 else ""
        lines.append(Text(f"  process   {attempt}`cloche logs {sandbox} {state.process}`"))
    return lines


def _bounds(started: AgentStarted) -> list[Text]:
    bounds = {
        "money": None if started.max_budget_usd is None else money(started.max_budget_usd),
        "tokens": None if started.max_tokens is None else f"{started.max_tokens:,}",
        "turns": None if started.max_turns is None else str(started.max_turns),
        "time": None if started.timeout_ms is None else seconds(started.timeout_ms),
    }
    told = ", ".join(f"{name} {bound}" for name, bound in bounds.items() if bound is not None)
    rules = [Text(f"  {rule.verdict:<9} {_rule(rule)}") for rule in started.approvals]
    return [*([Text(f"  at most   {told}")] if told else []), *rules]


def _rule(rule: ApprovalRule) -> str:
    return printable(rule.tool if rule.pattern == "*" else f"{rule.tool}:{rule.pattern}")


def _waiting(sandbox: str, state: RunState) -> list[Text]:
    asks = [
        Text(f"  asks      `cloche agent pending {sandbox} {printable(each.approval)}`", style=STYLE)
        for each in state.pending
        if not each.answered
    ]
    queued = [Text(f"  not heard yet: {each.kind}: {_short(each.text)}") for each in state.queued]
    return asks + queued


def _table(*titles: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in titles:
        table.add_column(
            title, no_wrap=True, justify="right" if title in ("TURNS", "TOOLS", "TOKENS", "COST") else "left"
        )
    return table


def _print(table: Table) -> None:
    # A narrow terminal wraps lines; it must not cut names that somebody wants to copy.
    Console(highlight=False, width=WIDE, markup=False, emoji=False).print(table)


def _short(text: str) -> str:
    return printable(" ".join(text.split()), SHORT)


def _time(at: datetime.datetime) -> str:
    local = at.astimezone()
    today = datetime.datetime.now(datetime.UTC).astimezone().date()
    return f"{local:%H:%M:%S}" if local.date() == today else f"{local:%d %b %H:%M}"


def _left(later: datetime.datetime, earlier: datetime.datetime) -> str:
    return seconds(max(0.0, (later - earlier).total_seconds() * 1000))
