"""What somebody decides about when a tool call needs leave: all of it, or how much is missing.

Every row of it comes from an agent, so nothing in it may hide: not behind a line break, not behind blanks, not behind
other arguments.
"""

import re
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from contracts.agents import SUBJECTS
from contracts.events.agent import AgentApprovalRequested
from contracts.message import JsonObject
from infra.words.agent_summaries import TOO_DEEP, as_json
from infra.words.escaping import CONTINUED, printable
from services.cli.agent_gutter import GUTTER

MOST_LINES = 20
MOST_CHARACTERS = 2000
STYLE = "yellow"
BREAK = "⏎"

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:/@-]+")
_BLANKS = re.compile(r" {9,}")
_LOOK_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")

CUT = "more than an event has room for; all of it is in the output of the agent's program"


class Shown(NamedTuple):
    lines: list[Text]
    missing: str
    """How much of it is not there; empty where nothing is."""


def arguments_of(request: AgentApprovalRequested, *, whole: bool = False) -> Shown:
    """Each argument by its name, what the call is about first. With `whole`, however much it is."""
    rows = [row for name, value in _in_order(request.input) for row in _rows(name, value)]
    shown = rows if whole else _fitting(rows)
    missing = CUT if request.truncated else _missing(rows, shown)
    return Shown([Text(f"  {GUTTER}{row}", style=STYLE) for row in shown], missing)


def tool_of(request: AgentApprovalRequested) -> str:
    """Its name, which cannot run on into other words."""
    return _name(request.tool)


def question_lines(request: AgentApprovalRequested, show_all: str, *, whole: bool = False) -> list[Text]:
    """`show_all` is what to type, with the id behind it, for what is not shown here."""
    lines, missing = arguments_of(request, whole=whole)
    first = Text(f"? may it use {tool_of(request)}", style=f"bold {STYLE}")
    words = missing if whole else f"{missing}: {show_all} {printable(request.approval)}"
    return [first, *lines, *([Text(f"  {CONTINUED} {words}", style=f"bold {STYLE}")] if missing else [])]


def answered_lines(verb: str, request: AgentApprovalRequested) -> list[Text]:
    """What was approved, or not, for whoever has just done it."""
    lines, missing = arguments_of(request)
    more = [Text(f"  {CONTINUED} {missing}")] if missing else []
    return [Text(f"{verb}: {tool_of(request)}", style="bold"), *lines, *more]


def spelled(text: str) -> str:
    """One row in which everything can be seen: what looks like nothing is spelled out, many blanks are counted."""
    seen = text if text.isascii() and text.isprintable() else "".join(map(_spelled, text))
    return _BLANKS.sub(lambda found: f"␣×{len(found[0])}", seen)


def _spelled(character: str) -> str:
    if character.isprintable() and (character in _LOOK_BLANK or cell_len(character) == 0):
        return ascii(character)[1:-1]
    return printable(character)


def _name(text: str) -> str:
    return text if _PLAIN_NAME.fullmatch(text) else f"'{spelled(text)}'"


def _in_order(arguments: JsonObject) -> list[tuple[str, object]]:
    ranks = {name: rank for rank, name in enumerate(SUBJECTS)}
    return sorted(arguments.items(), key=lambda argument: ranks.get(argument[0], len(ranks)))


def _rows(name: str, value: object) -> list[str]:
    """A line break is seen, and what follows it cannot be taken for another argument."""
    text = value if isinstance(value, str) and value else as_json(value)
    *broken, last = text.split("\n")
    rows = [*(f"{spelled(line)}{BREAK}" for line in broken), spelled(last)]
    return [f"{_name(name)}: {rows[0]}", *(f"    {row}" for row in rows[1:])]


def _fitting(rows: list[str]) -> list[str]:
    shown: list[str] = []
    left = MOST_CHARACTERS
    for row in rows[:MOST_LINES]:
        if left <= 0:
            break
        shown.append(row[:left])
        left -= len(row)
    return shown


def _missing(rows: list[str], shown: list[str]) -> str:
    if rows == shown:
        return TOO_DEEP if any(TOO_DEEP in row for row in rows) else ""
    lines = len(rows) - len(shown)
    characters = sum(map(len, rows)) - sum(map(len, shown))
    words = [f"{lines:,} more line{'s' if lines > 1 else ''}"] if lines else []
    return ", ".join([*words, f"{characters:,} more characters"])
