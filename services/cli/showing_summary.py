"""A sandbox in a few lines: what became of it, what ran, what it cost."""

import datetime
from contextlib import suppress

from msgspec import Struct
from rich.text import Text

from contracts import subjects
from contracts.changes import changes_of
from contracts.errors import Invalid
from contracts.events import agent, command, guardian, network
from contracts.message import EventHead, Fact, Time
from contracts.state import SandboxState, Status, apply
from infra.words.escaping import printable
from services.cli.agent_phrases import money
from services.cli.local_time import local
from services.cli.measures import counted, duration
from services.cli.showing_lifecycle import origin

MOST_PATHS = 100_000
MOST_HOSTS = 10_000
KINDS = (
    "sandbox", "health", "command.started", "command.completed", "command.timed_out", "command.cancelled",
    "command.rejected", "command.lost", "tool.invoked", "agent.started", "agent.attached", "agent.tool_use",
    "agent.metrics", "agent.completed", "agent.error", "agent.approval_requested", "file.created", "file.modified",
    "file.deleted", "file.moved", "file.batch", "network", "guardian",
)  # fmt: skip
"""All but the bulk."""


class Summary(Struct, frozen=True, kw_only=True, tag="summary", tag_field="kind"):
    sandbox: str
    status: Status
    node: str
    isolation: str
    origin: str
    """What its files began as, in words."""
    made_at: Time
    ended_at: Time | None
    duration_ms: float
    """From its beginning to its end, or to the last that is told of it."""
    commands: int
    failed_commands: int
    tool_calls: int
    runtimes: tuple[str, ...]
    runs: int
    tokens: int
    cost_usd: float
    files_changed: int
    hosts: int
    denied: int
    approvals: int
    findings: int
    last_sequence: int
    imported: bool = False
    """It is of another Cloche's log: as it was there when it was exported."""


class Counting:
    """Feed it the events of `filters`, in order."""

    def __init__(self) -> None:
        self.state: SandboxState | None = None
        self._failed = 0
        self._processes = 0
        self._runtimes: dict[str, None] = {}
        self._runs = 0
        self._paths: set[int] = set()
        self._hosts: set[tuple[str, int]] = set()
        self._denied = 0
        self._approvals = 0
        self._findings = 0
        self._last = 0

    @staticmethod
    def filters(sandbox: str) -> list[str]:
        return subjects.typed(sandbox, KINDS)

    def feed(self, sequence: int, head: EventHead, fact: Fact) -> None:
        self._last = sequence
        with suppress(Invalid):
            self.state = apply(self.state, sequence, head)
        match fact:
            case command.CommandCompleted():
                self._failed += fact.exit.code != 0
            case command.CommandTimedOut() | command.CommandCancelled() | command.CommandLost():
                self._failed += 1
            case agent.AgentStarted():
                self._runs += 1
                self._runtimes[" ".join(filter(None, (fact.runtime, fact.model)))[:100]] = None
            case agent.AgentAttached():
                self._processes += bool(fact.process)
            case agent.AgentApprovalRequested() | network.NetworkAsked():
                self._approvals += 1
            case guardian.GuardianObserved() | guardian.GuardianIntervention() | guardian.GuardianEscalated():
                self._findings += 1
            case network.NetworkAllowed() | network.NetworkBatch() | network.NetworkDenied():
                self._reach(fact)
            case _:
                self._touch(fact)

    def _reach(self, fact: network.NetworkAllowed | network.NetworkBatch | network.NetworkDenied) -> None:
        if isinstance(fact, network.NetworkDenied):
            self._denied += fact.count
            return
        for each in fact.requests if isinstance(fact, network.NetworkBatch) else (fact,):
            if len(self._hosts) < MOST_HOSTS:
                self._hosts.add((each.host, each.port))

    def _touch(self, fact: Fact) -> None:
        for change in changes_of(fact):
            if getattr(change.facts, "kind", "file") != "directory" and len(self._paths) < MOST_PATHS:
                self._paths.add(hash(change.path))

    def summary(self, *, imported: bool = False) -> Summary | None:
        """None for what was never made."""
        state = self.state
        if state is None:
            return None
        ended = state.completed_at
        return Summary(
            sandbox=state.sandbox,
            status=state.status,
            node=state.node,
            isolation=state.isolation,
            origin=origin(state.spec).removeprefix(", "),
            made_at=state.created_at,
            ended_at=ended,
            duration_ms=((ended or state.last_event_at) - state.created_at) / datetime.timedelta(milliseconds=1),
            # The processes of agents are their runs.
            commands=max(state.commands - self._processes, 0),
            failed_commands=self._failed,
            tool_calls=state.tool_calls,
            runtimes=tuple(self._runtimes),
            runs=self._runs,
            tokens=state.tokens,
            cost_usd=state.cost_usd,
            files_changed=len(self._paths),
            hosts=len(self._hosts),
            denied=self._denied,
            approvals=self._approvals,
            findings=self._findings,
            last_sequence=self._last,
            imported=imported,
        )


def summary_lines(told: Summary) -> list[Text]:
    style = {Status.RUNNING: "green", Status.FAILED: "bold red"}.get(told.status, "yellow")
    began = local(told.made_at)
    where = f"{told.isolation} on node {printable(told.node)}"
    origin_ = f", {printable(told.origin, 200)}" if told.origin else ""
    head = Text.assemble(
        (told.sandbox, "bold"),
        "  ",
        (str(told.status), style),
        f"  {where}{origin_}{', imported' if told.imported else ''}",
    )
    times = f"made {began:%Y-%m-%d %H:%M:%S %Z}, {'took' if told.ended_at else 'so far'} {duration(told.duration_ms)}"
    return [
        head,
        Text(f"  {times}; up to sequence {told.last_sequence}"),
        *(Text(f"  {line}") for line in _counted(told)),
        Text(""),
    ]


def _counted(told: Summary) -> list[str]:
    failed = f" ({told.failed_commands:,} failed)" if told.failed_commands else ""
    ran = counted(told.commands, "command") + failed
    files = f"{'over ' if told.files_changed >= MOST_PATHS else ''}{counted(told.files_changed, 'file')} changed"
    reached = [f"{counted(told.hosts, 'host')} reached"] * bool(told.hosts)
    denied = [f"{counted(told.denied, 'request')} DENIED"] * bool(told.denied)
    lines = [[ran, files, *reached, *denied]]
    if told.runs:
        names = printable(", ".join(told.runtimes), 200)
        spent = [f"{told.tokens:,} tokens"] * bool(told.tokens) + [money(told.cost_usd)] * bool(told.cost_usd)
        lines.append([f"{counted(told.runs, 'run')} of {names}", counted(told.tool_calls, "tool call"), *spent])
    asked = [counted(told.approvals, "approval") + " asked for"] * bool(told.approvals)
    found = [counted(told.findings, "finding") + " of the guardian"] * bool(told.findings)
    return [" · ".join(each) for each in (*lines, [*asked, *found]) if each]
