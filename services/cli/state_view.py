"""A sandbox as it was, for people. Everything that came out of it is escaped."""

import datetime
from collections.abc import Iterator

from rich.text import Text

from contracts.conversation import Line
from contracts.events.health import VitalsMetrics
from contracts.past import StateAt
from contracts.runs import RunState
from contracts.state import CommandState, SandboxState, Status
from contracts.traffic import Request, Traffic
from infra.words.escaping import last_lines, printable
from services.cli.agent_phrases import spent
from services.cli.local_time import local
from services.cli.measures import counted, duration, percent, size

LINES = 12
"""Of the conversation."""
REQUESTS = 8
ENDED = 5
WIDE = 160
STYLES = {Status.RUNNING: "green", Status.PAUSED: "yellow", Status.FAILED: "red", Status.ERROR: "red"}
WORDS = {
    "prompt": "asks for",
    "message": "says",
    "thinking": "thinks",
    "tool_use": "calls",
    "tool_result": "gets",
    "asked": "asks for leave",
    "approved": "approves",
    "rejected": "rejects",
    "user": "says",
    "note": "",
}


def lines(answer: StateAt, files: str) -> Iterator[Text]:
    """`files` says how many there were."""
    yield from _head(answer, files)
    yield from _commands(answer.state, answer.time)
    for run in answer.state.runs:
        yield from _run(run, answer.time)
    yield from _conversation(answer)
    yield from _network(answer.state, answer.traffic)


def _head(answer: StateAt, files: str) -> Iterator[Text]:
    state = answer.state
    head = Text(f"{state.sandbox}  ", style="bold")
    head.append(str(state.status), style=STYLES.get(state.status, ""))
    head.append(f"  at sequence {answer.sequence}, after {_time(answer.time)}")
    yield head
    yield _row("made", f"{_time(state.created_at)}, {state.isolation} on node {printable(state.node)}")
    if state.error is not None:
        yield _row("because", printable(f"{state.error.code}: {state.error.message}", WIDE))
    if state.recovery is not None and state.status == Status.CREATING:
        yield _row("recovers", printable(state.recovery.reason, WIDE))
    if state.health != "unknown":
        yield _row("health", printable(state.health, WIDE))
    if answer.use is not None:
        yield _row("use", _use(answer.use, state))
    yield _row("files", files)
    yield _row("so far", _so_far(state))


def _so_far(state: SandboxState) -> str:
    words = [counted(state.commands, "command"), counted(state.tool_calls, "tool call")]
    words += [f"{state.tokens:,} tokens"] if state.tokens else []
    words += [f"${state.cost_usd:.4f}"] if state.cost_usd else []
    return ", ".join(words)


def _use(use: VitalsMetrics, state: SandboxState) -> str:
    memory = f"{size(use.memory_bytes)} of {size(state.spec.resources.memory_mb * 1024 * 1024)} memory"
    processes = counted(use.processes, "process", "processes")
    return f"CPU {percent(use.cpu_percent)}, {memory}, {size(use.disk_bytes)} disk, {processes}"


def _commands(state: SandboxState, now: datetime.datetime) -> Iterator[Text]:
    if state.running:
        yield _title("Running")
    for command in state.running.values():
        yield _command(command, _since(command.started_at, now))
    if state.recent:
        yield _title("Ended last")
    for command in state.recent[-ENDED:]:
        yield _command(command, _outcome(command))


def _command(command: CommandState, how: str) -> Text:
    line = Text(f"  {printable(command.exec, 64)}  ", style="dim")
    line.append(printable("(never ran)" if command.outcome == "rejected" else " ".join(command.argv), WIDE))
    totals = command.totals
    written = totals.stdout + totals.stderr + totals.pty
    line.append(f"  {how}, {written:,} bytes out", style="dim")
    return line


def _outcome(command: CommandState) -> str:
    took = "" if command.duration_ms is None else f" in {duration(command.duration_ms)}"
    if command.exit is not None and command.outcome == "completed":
        code = command.exit.code
        return (f"exit {code}" if code is not None else f"signal {command.exit.signal}") + took
    cause = f": {printable(command.cause, WIDE)}" if command.cause else ""
    return f"{command.outcome}{cause}{took}"


def _run(run: RunState, now: datetime.datetime) -> Iterator[Text]:
    yield _title(f"Agent {printable(run.runtime)}  {printable(run.run)}  {run.status}")
    yield _row("asked", printable(run.prompt, WIDE))
    if run.reason:
        yield _row("because", printable(run.reason, WIDE))
    yield _row("spent", spent(run))
    for asked in run.pending:
        left = "answered, and not heard yet" if asked.answered else f"asked {_since(asked.asked_at, now)}"
        yield _row("waits", f"{printable(asked.tool)} {printable(asked.subject, WIDE)}  ({left})", style="bold yellow")
    if run.pending_more:
        yield _row("waits", f"and {run.pending_more} more", style="bold yellow")
    for said in run.queued:
        yield _row("queued", f"{said.kind}: {printable(said.text, WIDE)}")


def _conversation(answer: StateAt) -> Iterator[Text]:
    shown = answer.conversation.lines[-LINES:]
    if not shown:
        return
    earlier = answer.conversation.earlier + len(answer.conversation.lines) - len(shown)
    yield _title("Conversation" + (f" ({earlier:,} lines before these)" if earlier else ""))
    for line in shown:
        yield from _said(line)


def _said(line: Line) -> Iterator[Text]:
    text = last_lines(line.text, 1000, WIDE) or [""]
    head = Text(f"  {line.sequence:>7}  {_clock(line.at)}  ", style="dim")
    head.append(f"{line.who} {WORDS.get(line.kind, printable(line.kind))}".rstrip(), style="bold")
    subject = f"{printable(line.tool)} {text[0]}" if line.tool else text[0]
    head.append(f"  {subject}", style="red" if line.ok is False else "")
    more = f"  (+{len(text) - 1} lines)" if len(text) > 1 else ""
    head.append(f"{more}{'  …' if line.partial else ''}", style="dim")
    yield head


def _network(state: SandboxState, traffic: Traffic) -> Iterator[Text]:
    if not traffic.allowed and not traffic.denied and not state.approvals.pending:
        return
    sizes = f"{size(traffic.sent_bytes)} out, {size(traffic.received_bytes)} in"
    yield _title(f"Network  {traffic.allowed:,} passed, {traffic.denied:,} denied, {sizes}")
    for ask in state.approvals.pending:
        yield _row("waits", printable(f"{ask.method} {ask.host}:{ask.port}", WIDE), style="bold yellow")
    for request in traffic.requests[-REQUESTS:]:
        yield _request(request)


def _request(request: Request) -> Text:
    line = Text(f"  {request.sequence:>7}  {_clock(request.at)}  ", style="dim")
    how = "denied" if not request.allowed else "error" if request.reason else str(request.status or "done")
    line.append(f"{how:<7} ", style="green" if how.isdigit() or how == "done" else "red")
    line.append(printable(f"{request.method} {request.host}:{request.port}{request.path or ''}".strip(), WIDE))
    if request.reason:
        line.append(f"  {printable(request.reason, WIDE)}", style="dim")
    if request.count > 1:
        line.append(f"  {request.count} times", style="dim")
    return line


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _row(name: str, text: str, style: str = "") -> Text:
    line = Text(f"  {name:<9} ", style="dim")
    line.append(text, style=style)
    return line


def _since(began: datetime.datetime | None, now: datetime.datetime) -> str:
    return "" if began is None else f"{duration(max((now - began).total_seconds(), 0) * 1000)} before"


def _clock(at: datetime.datetime) -> str:
    return f"{local(at):%H:%M:%S}"


def _time(at: datetime.datetime) -> str:
    return f"{local(at):%Y-%m-%d %H:%M:%S}"
