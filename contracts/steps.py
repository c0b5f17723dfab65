"""What happened in a sandbox as steps that can be compared with another's: ids, times and its own name left out."""

import hashlib
import json
import re
import shlex
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from contracts.agents import subject_of
from contracts.errors import Invalid
from contracts.events import agent, command, guardian, health, network, sandbox
from contracts.message import EventHead, Fact, JsonObject
from contracts.payload import unpack
from contracts.runs import plus, plus_whole

MOST_STEPS = 200_000
"""Further ones are counted."""
LABEL = 300
"""Characters of what a step is called."""
SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash")
ME = b"<sandbox>"
SHORTEST_NAME = 6
_IDS = re.compile(r"\b(?:sb|run|exec|[a-z]{1,2})-[0-9a-f]{16,}\b")


class Step(Struct, frozen=True, kw_only=True, gc=False):
    sandbox: str
    sequence: int
    """Where it began."""
    last_sequence: int
    """Where its outcome was told."""
    kind: str
    """command, tool, said, user, asked, agent, health, guardian, network."""
    what: str
    """For people, cut short."""
    key: str
    """The same for the same deed."""
    outcome: str = ""
    """How it went: `exit 0`, `done`, `approved`."""
    output: str = ""
    """Digest and size of what came out of it."""


class Spent(Struct, frozen=True, kw_only=True):
    events: int = 0
    commands: int = 0
    failed_commands: int = 0
    tool_calls: int = 0
    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0
    duration_ms: float = 0
    requests: int = 0
    denied: int = 0


class _Doing:
    """A step whose outcome is still to come."""

    __slots__ = ("index", "outputs")

    def __init__(self, index: int) -> None:
        self.index = index
        self.outputs: dict[str, _Masked] = {}


class Steps:
    """Feed it the events of one sandbox in order, or of one and then of the one that goes on from it."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names`: of the sandboxes that are compared, the same for each of them."""
        self._names = _Names(names)
        self._steps: list[Step | None] = []
        self.left_out = 0
        self._doing: dict[tuple[str, str], _Doing] = {}
        self._spent = Spent()
        self._first: float | None = None

    @property
    def steps(self) -> list[Step]:
        return [each for each in self._steps if each is not None]

    @property
    def spent(self) -> Spent:
        return self._spent

    def feed(self, sequence: int, head: EventHead, fact: Fact) -> None:
        time = head.time.timestamp()
        self._first = time if self._first is None else self._first
        duration_ms = max(self._spent.duration_ms, (time - self._first) * 1000)
        self._count(events=self._spent.events + 1, duration_ms=round(duration_ms, 3))
        match head.type.partition(".")[0]:
            case "command":
                self._command(sequence, head, fact)
            case "agent" | "user":
                self._agent(sequence, head, fact)
            case "network":
                self._network(sequence, head, fact)
            case _:
                self._around(sequence, head, fact)

    def _count(self, **values: float) -> None:
        self._spent = msgspec.structs.replace(self._spent, **values)

    def _add(self, sequence: int, head: EventHead, kind: str, what: str, *more: str, outcome: str = "") -> int | None:
        if len(self._steps) >= MOST_STEPS:
            self.left_out += 1
            return None
        masked = [self._names.neutral(each) for each in (what, *more)]
        digest = hashlib.sha256("\0".join((kind, *masked)).encode("utf-8", "replace")).hexdigest()[:32]
        self._steps.append(
            Step(
                sandbox=head.sandboxid,
                sequence=sequence,
                last_sequence=sequence,
                kind=kind,
                what=what[:LABEL],
                key=digest,
                outcome=self._names.neutral(outcome)[:LABEL],
            )
        )
        return len(self._steps) - 1

    def _begin(self, sequence: int, head: EventHead, scope: str, kind: str, what: str, *more: str) -> None:
        index = self._add(sequence, head, kind, what, *more)
        if index is not None:
            self._doing[(kind, scope)] = _Doing(index)

    def _finish(self, sequence: int, kind: str, scope: str, outcome: str, output: str = "") -> None:
        doing = self._doing.pop((kind, scope), None)
        step = None if doing is None else self._steps[doing.index]
        if doing is None or step is None:
            return
        output = output or " ".join(f"{stream}:{each.digest()}" for stream, each in sorted(doing.outputs.items()))
        self._steps[doing.index] = msgspec.structs.replace(
            step, last_sequence=sequence, outcome=self._names.neutral(outcome)[:LABEL], output=output
        )

    def _command(self, sequence: int, head: EventHead, fact: Fact) -> None:
        match fact:
            case command.CommandStarted():
                self._count(commands=self._spent.commands + 1)
                self._begin(sequence, head, fact.exec, "command", line_of(fact.argv), "\0".join(fact.argv), fact.cwd)
            case command.CommandOutput() | command.CommandInput():
                self._flow(fact)
            case command.CommandRejected():
                self._add(sequence, head, "command", f"never ran: {fact.failure.message}", outcome="rejected")
            case command.CommandLost():
                self._finish(sequence, "command", fact.exec, f"lost: {fact.cause}")
            case command.CommandCompleted() | command.CommandTimedOut() | command.CommandCancelled():
                outcome = _outcome(head.type.partition(".")[2], fact)
                if outcome != "exit 0":
                    self._count(failed_commands=self._spent.failed_commands + 1)
                self._finish(sequence, "command", fact.exec, outcome)

    def _flow(self, fact: command.CommandOutput | command.CommandInput) -> None:
        doing = self._doing.get(("command", fact.exec))
        if doing is None:
            return
        stream = fact.stream.value if isinstance(fact, command.CommandOutput) else "stdin"
        try:
            data = unpack(fact.data, fact.encoding)
        except Invalid:
            data = fact.data.encode("utf-8", "surrogatepass")
        if data:
            doing.outputs.setdefault(stream, _Masked(self._names)).feed(data)

    def _agent(self, sequence: int, head: EventHead, fact: Fact) -> None:
        match fact:
            case agent.AgentStarted():
                what = f"{fact.runtime} {fact.model or ''}".strip()
                self._add(sequence, head, "agent", f"begins with {what}: {fact.prompt}")
            case agent.AgentAttached():
                self._forget_process(fact.process)
            case agent.AgentMessage(partial=False):
                self._add(sequence, head, "said", fact.text)
            case agent.AgentToolUse():
                self._count(tool_calls=self._spent.tool_calls + 1)
                what = f"{fact.tool} {_subject(fact.input)}".strip()
                self._begin(sequence, head, fact.call, "tool", what, _canonical(fact.input))
            case agent.AgentToolResult():
                output = _Masked(self._names)
                output.feed(fact.output.encode("utf-8", "surrogatepass"))
                self._finish(sequence, "tool", fact.call, "done" if fact.ok else "failed", output.digest())
            case agent.AgentMetrics():
                self._count(
                    tokens=plus_whole(self._spent.tokens, fact.input_tokens + fact.output_tokens),
                    cost_usd=plus(self._spent.cost_usd, fact.cost_usd),
                    turns=plus_whole(self._spent.turns, fact.turns),
                )
            case agent.AgentCompleted():
                self._add(sequence, head, "agent", "is over", outcome=fact.reason)
            case agent.AgentError(final=True):
                self._add(sequence, head, "agent", "is over", outcome=f"failed: {fact.failure.message}")
            case _:
                self._talk(sequence, head, fact)

    def _talk(self, sequence: int, head: EventHead, fact: Fact) -> None:
        match fact:
            case agent.UserMessage() | agent.UserGuidance():
                self._add(sequence, head, "user", fact.text)
            case agent.UserInterrupt() | agent.UserStop():
                self._add(sequence, head, "user", f"{head.type.partition('.')[2]}: {fact.reason}")
            case agent.AgentApprovalRequested():
                what = f"{fact.tool} {_subject(fact.input)}".strip()
                self._begin(sequence, head, fact.approval, "asked", what, _canonical(fact.input))
            case agent.AgentApproved():
                self._finish(sequence, "asked", fact.approval, "approved")
            case agent.AgentRejected():
                self._finish(sequence, "asked", fact.approval, "expired" if fact.expired else "denied")

    def _forget_process(self, exec_id: str) -> None:
        """What goes through the process of a run is told by the run."""
        doing = self._doing.pop(("command", exec_id), None)
        if doing is not None:
            self._steps[doing.index] = None
            self._count(commands=self._spent.commands - 1)

    def _network(self, sequence: int, head: EventHead, fact: Fact) -> None:
        """Requests are told in bursts, whenever they end: they are counted. Questions have their places."""
        match fact:
            case network.NetworkAllowed():
                self._count(requests=self._spent.requests + 1)
            case network.NetworkBatch():
                self._count(requests=self._spent.requests + len(fact.requests))
            case network.NetworkDenied():
                self._count(denied=plus_whole(self._spent.denied, fact.count))
            case network.NetworkAsked():
                self._begin(sequence, head, fact.approval, "asked", f"{fact.host}:{fact.port}")
            case network.NetworkApproved():
                self._finish(sequence, "asked", fact.approval, "approved")
            case network.NetworkRejected():
                self._finish(sequence, "asked", fact.approval, "expired" if fact.expired else "denied")

    def _around(self, sequence: int, head: EventHead, fact: Fact) -> None:
        match fact:
            case health.HealthDied():
                self._add(sequence, head, "health", f"died: {fact.cause}")
            case health.HealthLimitExceeded():
                self._add(sequence, head, "health", f"over its limit: {fact.limit}")
            case sandbox.SandboxFailed():
                self._add(sequence, head, "health", f"failed: {fact.failure.code}")
            case sandbox.SandboxNetworkChanged():
                changed = msgspec.json.encode(fact.network).decode()
                self._add(sequence, head, "network", f"network changed: {fact.network.mode}", changed)
            case guardian.GuardianIntervention() | guardian.GuardianEscalated():
                self._add(sequence, head, "guardian", f"{fact.rule}: {fact.step}")


class _Names:
    """The names of the sandboxes that are compared: whichever of them stands in a text does not count.

    Short ones are left: they are words like others.
    """

    def __init__(self, names: Iterable[str]) -> None:
        known = sorted({each for each in names if len(each) >= SHORTEST_NAME}, key=lambda each: (-len(each), each))
        self.longest = max(map(len, known), default=0)
        self.text = re.compile("|".join(map(re.escape, known)) or "(?!)")
        self.bytes = re.compile(self.text.pattern.encode())

    def neutral(self, text: str) -> str:
        return _IDS.sub("<id>", self.text.sub("<sandbox>", text))


class _Masked:
    """A digest of bytes with every name put out, however they are cut into pieces."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._rest = b""
        self._hash = hashlib.sha256()
        self._size = 0

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        # Beyond that a name may go on in the next piece.
        done = self._put(data, max(len(data) - self._names.longest + 1, 0))
        self._rest = data[done:]

    def _put(self, data: bytes, end: int) -> int:
        done = 0
        for found in self._names.bytes.finditer(data):
            if found.start() >= end:
                break
            self._take(data[done : found.start()] + ME)
            done = found.end()
        self._take(data[done : max(done, end)])
        return max(done, end)

    def _take(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)

    def digest(self) -> str:
        self._put(self._rest, len(self._rest))
        self._rest = b""
        return f"{self._hash.hexdigest()[:16]}/{self._size}"


def line_of(argv: tuple[str, ...]) -> str:
    """A command line, as somebody would have typed it."""
    if len(argv) == 3 and argv[0] in SHELLS and argv[1] in ("-c", "-lc"):
        return argv[2]
    return shlex.join(argv)


def _outcome(kind: str, fact: command.CommandCompleted | command.CommandTimedOut | command.CommandCancelled) -> str:
    ended = fact.exit
    how = "" if ended is None else f"signal {ended.signal}" if ended.signal is not None else f"exit {ended.code}"
    return how if kind == "completed" else f"{kind.replace('_', ' ')} {how}".strip()


def _subject(arguments: JsonObject) -> str:
    try:
        return subject_of(arguments)
    except RecursionError:
        return ""


def _canonical(arguments: JsonObject) -> str:
    try:
        return json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    except RecursionError:
        return "(nested too deep)"
