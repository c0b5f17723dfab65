"""A run told as a story, line by line. Everything in it comes from an agent, so everything is escaped."""

import collections
import datetime
import textwrap
from collections.abc import Hashable
from typing import NamedTuple, TypeVar

from rich.text import Text

from contracts.events import agent
from contracts.message import Fact
from contracts.runs import RunState
from infra.client.agent_run import AgentRun, RunEvent
from infra.words.escaping import printable
from services.cli.agent_gutter import GUTTER, straight
from services.cli.agent_phrases import (
    LONGEST,
    SUBJECT,
    about,
    because,
    lines_of,
    result_lines,
    seconds,
    spent,
    who,
)
from services.cli.agent_question import STYLE, arguments_of, question_lines
from services.cli.agent_surroundings import surroundings

REMEMBERED = 256

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Hints(NamedTuple):
    """How whoever looks can answer."""

    approve: str
    reject: str
    why: str
    """Behind `reject`, and the id where one is needed."""
    go_on: str
    whole: str
    """Shows all of a question, with its id behind it."""


def at_the_shell(sandbox: str) -> Hints:
    return Hints(
        f"cloche agent approve {sandbox}",
        f"cloche agent reject {sandbox}",
        "--reason '…'",
        f"cloche agent say {sandbox} '…'",
        f"cloche agent pending {sandbox}",
    )


class Narrator:
    """`lines` come out complete; `tail` is what is being said and not over, for those who can show it."""

    def __init__(self, run: AgentRun, hints: Hints, *, width: int | None = None) -> None:
        self._run = run
        self._hints = hints
        self.width = width
        """Of a terminal: then what is being said comes row by row. None = line by line."""
        self.state: RunState | None = None
        self._tail = ""
        self._growing: tuple[str, str] | None = None
        self._told: collections.OrderedDict[tuple[str, str], int] = collections.OrderedDict()
        """Characters of each message that were told."""
        self._said: collections.OrderedDict[str, str] = collections.OrderedDict()

    @property
    def tail(self) -> Text:
        kind = self._growing[0] if self._growing else ""
        return Text(f"{GUTTER}{printable(self._tail)}" if self._tail else "", style=_STYLES.get(kind, ""))

    def tell(self, event: RunEvent) -> list[Text]:
        """What this event adds to the story."""
        fact = event.fact
        if getattr(fact, "run", None) == self._run.id or self.state is None:
            self.state = self._run.fold(self.state, event)
        if isinstance(fact, agent.AgentMessage | agent.AgentThinking) and getattr(fact, "parent", None) is None:
            return self._words(event.head.type, fact)
        lines = self._flush() if isinstance(fact, _CUTS) else []
        return lines + self._others(event, fact)

    def _others(self, event: RunEvent, fact: Fact | None) -> list[Text]:
        match fact:
            case None:
                return []
            case agent.AgentMessage():
                return [] if fact.partial else lines_of(fact.text, "", "    ")
            case agent.AgentToolUse() | agent.AgentToolResult():
                return self._tool(fact)
            case agent.AgentApprovalRequested() | agent.AgentApproved() | agent.AgentRejected():
                return self._approval(event, fact)
            case (
                agent.UserMessage()
                | agent.UserGuidance()
                | agent.UserInterrupt()
                | agent.UserPause()
                | agent.UserStop()
                | agent.AgentDelivered()
            ):
                return self._steering(event, fact)
        return self._standing(fact) if event.head.type.startswith("agent.") else surroundings(fact)

    def _words(self, kind: str, fact: agent.AgentMessage | agent.AgentThinking) -> list[Text]:
        """Parts as they come; the whole is what is missing of it then."""
        key = (kind, fact.message)
        lines = self._flush() if self._growing not in (None, key) else []
        told = self._told.get(key, 0) if fact.message else 0
        begin = fact.offset if fact.partial else 0
        self._growing = key
        lines += self._grow(fact.text[max(told - begin, 0) :])
        _remember(self._told, key, max(told, begin + len(fact.text)))
        return lines if fact.partial else lines + self._flush()

    def _grow(self, text: str) -> list[Text]:
        style = _STYLES.get(self._growing[0] if self._growing else "", "")
        *whole, self._tail = (self._tail + straight(text)).split("\n")
        lines = [Text(f"{GUTTER}{printable(line, LONGEST)}", style=style) for line in whole]
        room = None if self.width is None else max(self.width - len(GUTTER), 1)
        if room is not None and len(self._tail) > room:
            *rows, self._tail = textwrap.wrap(self._tail, room, drop_whitespace=False) or [""]
            lines += [Text(f"{GUTTER}{printable(row.rstrip())}", style=style) for row in rows]
        elif len(self._tail) > LONGEST:
            lines += self._cut()
        return lines

    def _cut(self) -> list[Text]:
        line = self.tail
        self._tail = ""
        return [line]

    def _flush(self) -> list[Text]:
        """What is being said is over."""
        lines = self._cut() if self._tail.strip() else []
        self._tail, self._growing = "", None
        return lines

    def _tool(self, fact: agent.AgentToolUse | agent.AgentToolResult) -> list[Text]:
        if isinstance(fact, agent.AgentToolUse):
            name = f"{'    ' if fact.parent else ''}→ {printable(fact.tool, SUBJECT)}"
            return [Text.assemble((name, "bold cyan"), about(fact.input))]
        took = f" ({seconds(fact.duration_ms)})" if fact.duration_ms is not None and fact.duration_ms >= 1000 else ""
        shown = result_lines(fact.output, "" if fact.ok else "red")
        if not shown:
            return [Text(f"  {'done' if fact.ok else 'failed'}{took}", style="dim" if fact.ok else "red")]
        return shown if fact.ok else [Text(f"  failed{took}:", style="red"), *shown]

    def _approval(
        self, event: RunEvent, fact: agent.AgentApprovalRequested | agent.AgentApproved | agent.AgentRejected
    ) -> list[Text]:
        if isinstance(fact, agent.AgentApprovalRequested):
            return self._asked(event, fact)
        why = f": {printable(fact.reason, SUBJECT)}" if fact.reason else ""
        by = who(fact.by)
        if isinstance(fact, agent.AgentApproved):
            return [Text(f"  approved by {by}{why}", style="green")]
        if fact.expired:
            return [Text("  denied: nobody answered in time", style="red")]
        return [Text(f"  denied by {by}{why}", style="red")]

    def _asked(self, event: RunEvent, fact: agent.AgentApprovalRequested) -> list[Text]:
        lines = question_lines(fact, self._hints.whole)
        if fact.reason:
            lines.append(Text(f"  reason given: {printable(fact.reason, SUBJECT)}", style=STYLE))
        if fact.expires_ms is not None:
            at = (event.head.time + datetime.timedelta(milliseconds=fact.expires_ms)).astimezone()
            lines.append(Text(f"  denied unless answered by {at:%H:%M:%S}", style=STYLE))
        waiting = 0 if self.state is None else len(self.state.pending)
        name = f" {printable(fact.approval)}" if waiting > 1 or arguments_of(fact).missing else ""
        lines.append(Text(f"  yes: {self._hints.approve}{name}", style=STYLE))
        lines.append(Text(f"  no:  {self._hints.reject}{name} {self._hints.why}", style=STYLE))
        return lines

    def _steering(self, event: RunEvent, fact: Fact) -> list[Text]:
        order = event.head.correlationid or ""
        match fact:
            case agent.UserMessage() | agent.UserGuidance():
                _remember(self._said, order, fact.text)
                name = who(fact.by) + (" guides" if isinstance(fact, agent.UserGuidance) else "")
                return lines_of(fact.text, "bold", "", f"{name}> ")
            case agent.UserInterrupt():
                _remember(self._said, order, fact.reason)
                return [Text(f"{who(fact.by)} interrupts{because(fact.reason)}", style="bold")]
            case agent.UserPause():
                return [Text(f"{who(fact.by)} pauses it{because(fact.reason)}", style="bold")]
            case agent.UserStop():
                return [Text(f"{who(fact.by)} stops it{because(fact.reason)}", style="bold")]
            case agent.AgentDelivered():
                text = printable(" ".join(self._said.pop(fact.order, fact.kind).split()), 60)
                where = {
                    "prompt": "begins its next turn",
                    "tool_call": "is heard before its next tool call",
                }.get(fact.where, "is heard within the turn")
                return [Text(f"  “{text}” {where}", style="dim")]
        return []

    def _standing(self, fact: Fact) -> list[Text]:
        match fact:
            case agent.AgentStarted():
                return self._begun(fact)
            case agent.AgentAttached() if fact.attempt > 1:
                words = f"goes on in a new process (attempt {fact.attempt})"
                return [Text(words, style="yellow"), *lines_of(fact.reason, "dim", "  ")]
            case agent.AgentInterrupted():
                return [Text(f"interrupted{because(fact.reason)}", style="yellow")]
            case agent.AgentPaused():
                return [Text(f"paused{because(fact.reason)}", style="yellow")]
            case agent.AgentResumed():
                return [Text("goes on", style="yellow")]
            case agent.AgentWaiting():
                why = "was interrupted, and waits to be told how to go on" if fact.reason == "interrupted" else "waits"
                return [Text(f"it {why}: {self._hints.go_on}", style="yellow")]
            case agent.AgentMetrics() if fact.turns:
                return [Text(f"  turn over: {spent(fact)}", style="dim")]
            case agent.AgentCompleted() | agent.AgentError():
                return self._ended(fact)
        return []

    def _begun(self, fact: agent.AgentStarted) -> list[Text]:
        resumed = f", goes on from {printable(fact.resumed)}" if fact.resumed else ""
        model = f" {printable(fact.model, SUBJECT)}" if fact.model else ""
        head = Text(f"run {fact.run}: {printable(fact.runtime)}{model}{resumed}", style="dim")
        return [head, *lines_of(fact.prompt, "bold", "", "> ")]

    def _ended(self, fact: agent.AgentCompleted | agent.AgentError) -> list[Text]:
        if isinstance(fact, agent.AgentCompleted):
            style = "bold green" if fact.reason == "done" else "bold"
            return [Text(f"over: {printable(fact.reason, LONGEST)}", style=style), *self._in_all()]
        what = "failed" if fact.final else "goes on after an error"
        words = f"{printable(fact.failure.message, LONGEST)} ({printable(fact.failure.code)})"
        first = Text(f"{what}: {words}", style="bold red" if fact.final else "red")
        return [first, *result_lines(fact.detail, "red"), *(self._in_all() if fact.final else [])]

    def _in_all(self) -> list[Text]:
        return [] if self.state is None else [Text(f"  in all: {spent(self.state)}", style="dim")]


_STYLES = {"agent.thinking": "dim italic"}
_CUTS = (
    agent.AgentToolUse,
    agent.AgentApprovalRequested,
    agent.AgentInterrupted,
    agent.AgentWaiting,
    agent.AgentMetrics,
    agent.AgentAttached,
    agent.AgentCompleted,
    agent.AgentError,
)
"""After these nothing more comes of what was being said."""


def _remember(known: "collections.OrderedDict[K, T]", key: K, value: T) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > REMEMBERED:
        known.popitem(last=False)
