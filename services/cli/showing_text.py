"""The story of a sandbox as lines for a person. What comes from a sandbox is escaped here."""

import datetime
from collections.abc import Iterable

from rich.text import Text

from contracts.commands.command import Asker
from contracts.runs import from_guardian
from contracts.steps import line_of
from infra.words.escaping import printable
from services.cli.agent_gutter import GUTTER
from services.cli.agent_phrases import lines_of, who
from services.cli.local_time import local
from services.cli.measures import duration
from services.cli.measures import size_in_words as size_of
from services.cli.showing_items import (
    Answered,
    Asked,
    Begun,
    Called,
    Excerpt,
    Item,
    Lifecycle,
    Noticed,
    Ran,
    Reached,
    Returned,
    RunMoved,
    Said,
    Touched,
    Worked,
    Written,
)

SUBJECT = 200
LINE = 400
DIFF_LINES = 12
"""Of one file, unless everything is shown."""
FILES = 12
MARGIN = 20
"""Sequence, time and blanks: what the lines below are indented by."""
_MARKS = {"created": ("+", "green"), "modified": ("~", "yellow"), "deleted": ("-", "red"), "moved": ("→", "yellow")}


class Teller:
    """Remembers only the day, and what was told just before."""

    def __init__(self, *, full: bool = False) -> None:
        self._full = full
        self._day: datetime.date | None = None

    def lines(self, item: Item) -> list[Text]:
        sequence, at = item.sequence, item.at
        if isinstance(item, Ran) and item.was_begun:
            sequence, at = item.last_sequence, item.ended_at
        told, here = self._told(item), local(at)
        if not told:
            return []
        margin = f"{sequence:>8}  {here:%H:%M:%S}  "
        first = Text.assemble((margin, "dim"), told[0])
        rest = [Text.assemble(" " * MARGIN, line) for line in told[1:]]
        return [*self._new_day(here), first, *rest]

    def _new_day(self, here: datetime.datetime) -> list[Text]:
        if self._day == here.date():
            return []
        self._day = here.date()
        return [Text(f"{here:%A, %d %B %Y} ({here:%Z})".rjust(MARGIN), style="dim")]

    def _told(self, item: Item) -> list[Text]:
        match item:
            case Begun():
                return [Text.assemble((f"$ {in_words(item.argv)}", "bold"), _by(item), ("  …", "dim"))]
            case Written():
                return [Text(f"{GUTTER}{printable(line, LINE)}", style="dim") for line in item.lines]
            case Ran():
                return _ran(item)
            case Called():
                indent = "    " if item.parent else ""
                return [Text.assemble((f"{indent}→ {printable(item.tool, SUBJECT)}", "bold cyan"), _about(item.about))]
            case Returned():
                return _returned(item)
            case Touched():
                return self._touched(item)
            case Reached():
                return _reached(item)
        return _words(item)

    def _touched(self, item: Touched) -> list[Text]:
        most = len(item.changes) if self._full else FILES
        lines: list[Text] = []
        for change in item.changes[:most]:
            mark, style = _MARKS.get(change.action, ("?", ""))
            origin = f"{printable(change.moved_from, SUBJECT)} → " if change.moved_from else ""
            added, taken = _counts(change.diff)
            counts = f"  +{added} −{taken}" if change.diff else ""
            size = "" if change.size is None or change.diff else f"  {size_of(change.size)}"
            lines.append(
                Text.assemble((f"{mark} ", style), f"{origin}{printable(change.path, SUBJECT)}", (counts + size, "dim"))
            )
            lines += self._diff(change.diff)
        left = len(item.changes) - most + item.more
        return [*lines, Text(f"… {left:,} more files", style="dim")] if left > 0 else lines

    def _diff(self, diff: str) -> list[Text]:
        body = [line for line in diff.split("\n") if line and not line.startswith(("--- ", "+++ "))]
        most = len(body) if self._full else DIFF_LINES
        shown = [Text(f"    {printable(line.expandtabs(4), SUBJECT)}", style=_colour(line)) for line in body[:most]]
        return [*shown, Text(f"    … {len(body) - most} more lines", style="dim")] if len(body) > most else shown


def _words(item: Item) -> list[Text]:
    match item:
        case Lifecycle():
            return [Text(f"■ {printable(item.text, LINE)}", style="bold red" if item.bad else "bold blue")]
        case Said():
            return _said(item)
        case RunMoved():
            style = "bold red" if item.bad else "bold green" if item.good else "bold magenta"
            first = Text.assemble((f"● {printable(item.text, LINE)}", style), (f"  {printable(item.run)}", "dim"))
            return [first, *lines_of(item.detail, "red" if item.bad else "bold", "", "" if item.bad else "> ")]
        case Worked():
            done = f"  failed: {printable(item.failure, SUBJECT)}" if item.failure else ""
            return [Text(f"⋅ {printable(item.tool)} {printable(item.path, SUBJECT)}{done}", "red" if done else "dim")]
        case Asked():
            reason = [Text(f"  reason given: {printable(item.reason, SUBJECT)}")] if item.reason else []
            return [Text(f"? asks for leave: {printable(item.what, LINE)}", style="bold yellow"), *reason]
        case Answered():
            return [_answered(item)]
        case Noticed():
            style = "bold red" if item.bad else "yellow"
            return [
                Text(f"! {printable(item.who, SUBJECT)}: {printable(item.text, LINE)}", style=style),
                *lines_of(item.last_output[-2000:], "dim"),
            ]
    return []


def _said(item: Said) -> list[Text]:
    indent = "    " if item.parent else ""
    if item.who == "agent":
        return lines_of(item.text, "", indent)
    if item.who == "thought":
        return lines_of(item.text, "dim italic", indent)
    name = who(item.who)
    style = "bold yellow" if from_guardian(item.who) else "bold"
    if item.how in ("", "guides"):
        return lines_of(item.text, style, "", f"{name}{' guides' if item.how else ''}> ")
    reason = f": {printable(item.text, LINE)}" if item.text not in ("", "asked") else ""
    return [Text(f"{name} {item.how} it{reason}", style=style)]


def _answered(item: Answered) -> Text:
    what = f": {printable(item.what, SUBJECT)}" if item.what else ""
    why = f" ({printable(item.reason, SUBJECT)})" if item.reason else ""
    after = f" after {seconds(item.waited_ms)}" if item.waited_ms is not None and item.waited_ms >= 1000 else ""
    if item.expired:
        return Text(f"✗ denied: nobody answered{after}{what}", style="red")
    by = who(item.by)
    if item.allowed:
        return Text(f"✓ approved by {by}{after}{why}{what}", style="green")
    return Text(f"✗ denied by {by}{after}{why}{what}", style="red")


def _ran(item: Ran) -> list[Text]:
    line = "(never ran)" if item.outcome == "rejected" and not item.argv else in_words(item.argv)
    if item.was_begun:
        head = Text.assemble("… ", _outcome(item), (f"  $ {line}", "dim"))
    else:
        style = "dim" if item.asker == Asker.AGENT else "bold"
        head = Text.assemble((f"$ {line}", style), "  ", _outcome(item), _by(item))
    return [head, *excerpt_lines(item.output)]


def _by(item: Ran | Begun) -> Text:
    return Text(f"  by {printable(item.by, SUBJECT)}" if item.by and item.asker != Asker.AGENT else "", style="dim")


def _outcome(item: Ran) -> Text:
    took = "" if item.duration_ms is None else f" in {seconds(item.duration_ms)}"
    if item.outcome == "running":
        return Text("goes on", style="yellow")
    if item.outcome == "completed":
        if item.signal is not None:
            return Text(f"ended by signal {item.signal}{took}", style="bold red")
        return Text(f"exit {item.code}{took}", style="green" if item.code == 0 else "bold red")
    return Text(f"{item.outcome.replace('_', ' ')}{took}: {printable(item.cause, SUBJECT)}", style="bold red")


def seconds(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else duration(milliseconds)


def in_words(argv: tuple[str, ...]) -> str:
    """A command line, as somebody would have typed it."""
    if not argv:
        return "(begun earlier)"
    first, *rest = line_of(argv).strip().split("\n")
    return printable(first.expandtabs(4), SUBJECT) + (f"  (+{len(rest)} lines)" if rest else "")


def _about(subject: str) -> Text:
    first, *rest = subject.strip().split("\n")
    more = f"  (+{len(rest)} lines)" if rest else ""
    return Text(f"  {printable(first.expandtabs(4), SUBJECT)}{more}" if subject else "")


def _returned(item: Returned) -> list[Text]:
    took = f" in {seconds(item.duration_ms)}" if item.duration_ms is not None and item.duration_ms >= 1000 else ""
    of = "" if item.follows or not item.tool else f" {printable(item.tool, SUBJECT)}"
    head = Text(f"← {'done' if item.ok else 'failed'}{of}{took}", style="dim cyan" if item.ok else "bold red")
    return [head, *excerpt_lines(item.output, "dim" if item.ok else "red")]


def excerpt_lines(excerpt: Excerpt, style: str = "dim") -> list[Text]:
    left = [f"… {excerpt.left_out:,} more lines"] if excerpt.left_out else []
    shown = [*_guttered(excerpt.first), *left, *_guttered(excerpt.last)]
    return [Text(line, style=style) for line in shown]


def _guttered(lines: Iterable[str]) -> list[str]:
    return [f"{GUTTER}{printable(line, LINE)}" for line in lines]


def _reached(item: Reached) -> list[Text]:
    lines = []
    for each in item.denied:
        times = f" {each.count:,} times" if each.count > 1 else ""
        what = f"{printable(each.host, SUBJECT)}:{each.port}{times}: {printable(each.reason, SUBJECT)}"
        lines.append(Text(f"✗ DENIED {what}", style="bold red"))
    for host in item.hosts:
        count = f"{host.requests:,} {'request' if host.requests == 1 else 'requests'}"
        failed = f", {host.failed:,} failed" if host.failed else ""
        sizes = f"{size_of(host.sent_bytes)} out, {size_of(host.received_bytes)} in"
        lines.append(Text(f"⇄ {printable(host.host, SUBJECT)}:{host.port}  {count}{failed}, {sizes}", style="cyan"))
    return [*lines, Text(f"… {item.more:,} more requests", style="dim")] if item.more else lines


def _counts(diff: str) -> tuple[int, int]:
    lines = [line for line in diff.split("\n") if not line.startswith(("+++ ", "--- "))]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _colour(line: str) -> str:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
