"""The timeline of a page: what happened in a sandbox, event by event, with what there is to see of each."""

import datetime
import json

from contracts.events import agent, command, file
from contracts.message import EventHead, Fact, JsonObject
from contracts.payload import unpack
from infra.bus.gaps import Gap
from infra.bus.page import Entry
from infra.export.page.outputs import Excerpt
from infra.export.page.records import TITLE, Part, Record, clipped, part
from infra.words.summaries import summary

UNSEEN = frozenset({"command.input", "agent.transcript"})
"""Told elsewhere: what was typed shows on the terminal, transcripts repeat the conversation."""
MOST_CHANGES = 100
MOST_COMMANDS = 10_000
"""That can be open at a time and have their output shown."""
BAD = frozenset(
    {
        "command.rejected", "command.lost", "command.timed_out", "health.died", "health.unhealthy",
        "health.limit_exceeded", "network.denied", "network.rejected", "agent.error", "agent.rejected",
        "sandbox.failed", "file.error", "file.overflow",
    }
)  # fmt: skip


class Items:
    """Feed every event in order; then `close`."""

    def __init__(self) -> None:
        self._outputs: dict[str, Excerpt] = {}

    def feed(self, at_ms: int, sequence: int, head: EventHead, fact: Fact | None) -> list[Record]:
        match fact:
            case command.CommandStarted():
                if len(self._outputs) < MOST_COMMANDS:
                    self._outputs[fact.exec] = Excerpt()
                title = f"$ {' '.join(fact.argv)}"
                return [_item(at_ms, sequence, head, title, _parts_of_start(fact), exec_id=fact.exec)]
            case command.CommandOutput():
                if (excerpt := self._outputs.get(fact.exec)) is not None:
                    excerpt.feed(unpack(fact.data, fact.encoding))
                return []
            case agent.AgentMessage(partial=True) | agent.AgentThinking(partial=True):
                return []
        if head.type in UNSEEN:
            return []
        title = summary(head)
        records = [] if fact is None else self._ended(head, fact)
        if head.type != "command.completed":
            records.insert(0, _item(at_ms, sequence, head, title, _parts(head, fact)))
        return records

    def close(self) -> list[Record]:
        """What had not ended by then."""
        return [["end", exec_id, "still running", False, each.text] for exec_id, each in self._outputs.items()]

    def _ended(self, head: EventHead, fact: Fact) -> list[Record]:
        outcome = _outcome(head, fact)
        if outcome is None:
            return []
        exec_id: str = getattr(fact, "exec", "")
        excerpt = self._outputs.pop(exec_id, None)
        return [["end", exec_id, outcome, _failed(fact), "" if excerpt is None else excerpt.text]]


def unreadable(at_ms: int, entry: Entry) -> Record:
    """What is in the log and no event that this version can read."""
    family, kind = entry.subject.split(".")[3:5]
    shown = part(entry.data.decode("utf-8", "replace"))
    clock = int(entry.time.timestamp() * 1000)
    return ["item", at_ms, entry.seq, clock, family, f"{kind}  cannot be read", [shown], None, True]


def lost(at_ms: int, near: datetime.datetime, gap: Gap) -> Record:
    """What was in the log, and is not there any more; `near`: when what stands beside it was stored."""
    which = f"sequence {gap.first}" if gap.first == gap.last else f"sequences {gap.first} to {gap.last}"
    words = part("Whose events they were, and what they said, nobody can tell: see `cloche audit`.")
    clock = int(near.timestamp() * 1000)
    return ["item", at_ms, gap.first, clock, "log", f"the store has lost {which}", [words], None, True]


def _item(
    at_ms: int, sequence: int, head: EventHead, title: str, parts: list[Part], *, exec_id: str | None = None
) -> Record:
    clock = int(head.time.timestamp() * 1000)
    family = head.type.partition(".")[0]
    shown = clipped(title if exec_id else f"{head.type.partition('.')[2]}  {title}", TITLE)
    return ["item", at_ms, sequence, clock, family, shown, parts, exec_id, head.type in BAD]


def _outcome(head: EventHead, fact: Fact) -> str | None:
    match fact:
        case command.CommandCompleted():
            how = f"signal {fact.exit.signal}" if fact.exit.signal is not None else f"exit code {fact.exit.code}"
            return f"{how} after {fact.duration_ms:.0f} ms"
        case command.CommandTimedOut() | command.CommandCancelled() | command.CommandLost():
            return f"{head.type.partition('.')[2]}: {fact.cause}"
        case command.CommandRejected():
            return f"rejected: {fact.failure.message}"
    return None


def _failed(fact: Fact) -> bool:
    return not (isinstance(fact, command.CommandCompleted) and fact.exit.code == 0)


def _parts(head: EventHead, fact: Fact | None) -> list[Part]:
    match fact:
        case file.FileCreated() | file.FileModified():
            return [_file(fact.path, fact.facts)]
        case file.FileMoved() if fact.facts is not None:
            return [_file(fact.path, fact.facts)]
        case file.FileBatch():
            return _changes(fact)
        case agent.AgentMessage() | agent.AgentThinking() | agent.UserMessage() | agent.UserGuidance():
            return [part(fact.text)]
        case agent.AgentStarted():
            return [part(fact.prompt, head="prompt"), part(_pretty(head))]
        case agent.AgentToolUse():
            return _arguments(fact.input)
        case agent.AgentApprovalRequested():
            return [part(fact.reason, head="why it asks"), *_arguments(fact.input)]
        case agent.AgentToolResult():
            return [part(fact.output)]
    return [part(_pretty(head))]


def _parts_of_start(fact: command.CommandStarted) -> list[Part]:
    said = [f"in {fact.cwd}, asked by {fact.asker}"]
    if fact.pty is not None:
        said.append(f"on a terminal of {fact.pty.cols} by {fact.pty.rows}")
    if fact.environment:
        said.append(f"with {', '.join(fact.environment)} set")
    return [part(f"{', '.join(said)}\n\n{chr(10).join(fact.argv)}", head=fact.exec)]


def _changes(fact: file.FileBatch) -> list[Part]:
    shown = [
        _file(each.path, each.facts) if each.facts is not None else part("", head=f"{each.action} {each.path}")
        for each in fact.changes[:MOST_CHANGES]
    ]
    more = len(fact.changes) - len(shown)
    return [*shown, part(f"{more} more")] if more > 0 else shown


def _file(path: str, facts: file.FileFacts) -> Part:
    if facts.diff:
        return part(facts.diff, head=path, diff=True)
    what = f"{facts.size} bytes" if facts.kind == file.EntryKind.FILE else str(facts.kind)
    return part(f"{what}{f', sha256 {facts.sha256}' if facts.sha256 else ''}", head=path)


def _arguments(arguments: JsonObject) -> list[Part]:
    """Each by itself, so that a text of several lines stays one."""
    return [
        part(value if isinstance(value, str) else _json(value), head=clipped(str(name), TITLE))
        for name, value in list(arguments.items())[:MOST_CHANGES]
    ]


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=1)
    except RecursionError:
        return "(nested too deep to be shown)"


def _pretty(head: EventHead) -> str:
    raw = bytes(head.data)
    try:
        return _json(json.loads(raw))
    except (ValueError, RecursionError):
        return raw.decode("utf-8", "replace")
