"""Histories of one sandbox, told by hand: what happened, and how long after what was before."""

import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from contracts import codec, registry
from contracts.commands.command import Asker
from contracts.events import agent, command, file, sandbox
from contracts.guardian import Guardian, Step
from contracts.message import Event, Fact
from contracts.spec import Isolation, SandboxSpec
from services.guardian.decide import Decision
from services.guardian.engine import bind
from services.guardian.history import History
from services.guardian.moments import milliseconds

START = datetime.datetime(2026, 5, 1, 9, 0, tzinfo=datetime.UTC)
HISTORIES = Path(__file__).parent / "histories"
RUN = "run-1"


class Line(msgspec.Struct):
    """As `cloche events --json` writes it."""

    sequence: int
    event: msgspec.Raw


class Story:
    """Each call is one event, `after` seconds later than the one before."""

    def __init__(self, sandbox_id: str = "sb-1", *, node: str = "local", first: int = 1) -> None:
        self.sandbox = sandbox_id
        self.node = node
        self.events: list[Event] = []
        self._now = START
        self._first = first

    @property
    def last(self) -> int:
        return self._first + len(self.events) - 1

    def tell(self, fact: Fact, after: float = 1.0) -> Self:
        self._now += datetime.timedelta(seconds=after)
        number = self._first + len(self.events)
        tag = registry.tag_of(fact)
        source = f"{tag.partition('.')[0]}/{self.node}"
        self.events.append(
            Event(id=f"e-{number}", source=source, type=tag, time=self._now, sandboxid=self.sandbox, data=fact)
        )
        return self

    def begin(self, spec: SandboxSpec | None = None) -> Self:
        spec = spec or SandboxSpec()
        self.tell(sandbox.SandboxCreating(spec=spec, isolation=Isolation.LOCAL, node=self.node))
        self.tell(sandbox.SandboxCreated(node=self.node, isolation=Isolation.LOCAL, workspace="/workspace"))
        return self.tell(sandbox.SandboxStarted(instance="life-1"))

    def run(self, run: str = RUN) -> Self:
        return self.tell(agent.AgentStarted(run=run, runtime="script", prompt="grow"))

    def call(
        self, tool: str, output: str = "", *, ok: bool = True, run: str = RUN, after: float = 2.0, **arguments: Any
    ) -> Self:
        name = f"call-{len(self.events)}"
        self.tell(agent.AgentToolUse(run=run, call=name, tool=tool, input=arguments), after)
        return self.tell(agent.AgentToolResult(run=run, call=name, ok=ok, output=output), 1.0)

    def use(self, tool: str, *, run: str = RUN, after: float = 2.0, **arguments: Any) -> Self:
        return self.tell(agent.AgentToolUse(run=run, call="open", tool=tool, input=arguments), after)

    def command(self, *argv: str, exec_id: str = "x-1", after: float = 1.0) -> Self:
        return self.tell(command.CommandStarted(exec=exec_id, argv=argv, cwd="/workspace", asker=Asker.AGENT), after)

    def ended(self, code: int = 0, *, exec_id: str = "x-1", stdout: int = 0, after: float = 1.0) -> Self:
        totals = command.Totals(stdout=stdout)
        exit_ = command.Exit(code=code)
        fact = command.CommandCompleted(exec=exec_id, exit=exit_, duration_ms=after * 1000, totals=totals)
        return self.tell(fact, after)

    def ran(self, *argv: str, code: int = 0, stdout: int = 0) -> Self:
        name = f"x-{len(self.events)}"
        return self.command(*argv, exec_id=name).ended(code, exec_id=name, stdout=stdout)

    def changed(self, path: str, after: float = 1.0) -> Self:
        return self.tell(file.FileModified(path=path, facts=file.FileFacts(size=1, mode=0o644)), after)

    def spent(self, usd: float, *, run: str = RUN, tokens: int = 0) -> Self:
        return self.tell(agent.AgentMetrics(run=run, cost_usd=usd, output_tokens=tokens))

    def said(self, text: str = "so", *, after: float = 1.0, run: str = RUN) -> Self:
        return self.tell(agent.AgentMessage(run=run, text=text), after)

    def finished(self, after: float = 1.0, run: str = RUN) -> Self:
        return self.tell(agent.AgentCompleted(run=run, reason="done"), after)

    def lines(self) -> list[bytes]:
        return [
            b'{"sequence":%d,"event":%b}' % (sequence, codec.encode(event))
            for sequence, event in enumerate(self.events, self._first)
        ]


class Found(NamedTuple):
    rule: str
    sequence: int
    """The last of its evidence."""
    after_s: float
    """Since the story began."""
    step: Step
    decision: Decision


def judge(
    lines: "list[bytes] | Story", settings: Guardian | None = None, *rules: str, silence_s: float = 0.0
) -> list[Found]:
    """What the guardian finds in it, and in `silence_s` after its end."""
    told = lines.lines() if isinstance(lines, Story) else lines
    history = History(bind(settings or Guardian(), rules))
    found = []
    last_ms = 0
    for line in told:
        entry = msgspec.json.decode(line, type=Line)
        last_ms = milliseconds(codec.decode_head(bytes(entry.event)).time)
        found += [_found(each.decision) for each in history.feed(entry.sequence, None, bytes(entry.event))]
    found += [_found(each.decision) for each in history.end(last_ms + int(silence_s * 1000))]
    assert history.unreadable == 0
    return found


def _found(decision: Decision) -> Found:
    after_s = decision.at_ms / 1000 - START.timestamp()
    return Found(decision.finding.rule, decision.finding.evidence[-1], after_s, decision.step, decision)


def rules_of(found: list[Found]) -> list[str]:
    return [each.rule for each in found]


def recorded(name: str) -> list[bytes]:
    return (HISTORIES / f"{name}.jsonl").read_bytes().splitlines()
