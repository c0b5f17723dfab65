"""What an event says, in a few words of one line. Not escaped yet."""

from collections import Counter

from contracts import codec
from contracts.events import command, file, guardian, health, sandbox, tool
from contracts.events.audit import DeadLetter
from contracts.message import EventHead, Fact


def summary(head: EventHead) -> str:
    """Its data as it stands, where there are no better words."""
    fact = codec.decode_fact(head)
    words = None
    if fact is not None:
        match head.type.partition(".")[0]:
            case "command":
                words = _of_command(fact)
            case "sandbox":
                words = _of_sandbox(fact)
            case "file":
                words = _of_file(fact)
            case _:
                words = _of_others(fact)
    return bytes(head.data).decode("utf-8", "replace") if words is None else words


def _of_command(fact: Fact) -> str | None:
    match fact:
        case command.CommandStarted():
            return f"{fact.exec}  {' '.join(fact.argv)}"
        case command.CommandOutput():
            return f"{fact.exec}  {fact.stream} @{fact.offset} +{fact.size}  {fact.data!r}"
        case command.CommandInput():
            return f"{fact.exec}  stdin @{fact.offset} +{fact.size}{' eof' if fact.eof else ''}  {fact.data!r}"
        case command.CommandCompleted():
            how = f"signal {fact.exit.signal}" if fact.exit.signal is not None else f"code {fact.exit.code}"
            return f"{fact.exec}  {how} in {fact.duration_ms:.0f} ms, {fact.totals.stdout + fact.totals.stderr} bytes"
        case command.CommandTimedOut() | command.CommandCancelled() | command.CommandLost():
            return f"{fact.exec}  {fact.cause}"
        case command.CommandRejected():
            return f"{fact.exec}  {fact.failure.code}: {fact.failure.message}"
    return None


def _of_sandbox(fact: Fact) -> str | None:
    match fact:
        case sandbox.SandboxCreated():
            return f"{fact.isolation} on node {fact.node}, workspace {fact.workspace}"
        case sandbox.SandboxStopped() | sandbox.SandboxRemoved():
            return fact.reason
        case sandbox.SandboxFailed():
            return f"{fact.failure.code}: {fact.failure.message}"
        case sandbox.SandboxSnapshotted():
            return f"{fact.files} entries, {fact.size} bytes{f', {fact.label}' if fact.label else ''}"
        case sandbox.SandboxRecovering():
            return f"attempt {fact.attempt} on node {fact.node}: {fact.reason}"
        case sandbox.SandboxRecovered():
            return f"attempt {fact.attempt} on node {fact.node}"
    return None


def _of_file(fact: Fact) -> str | None:
    match fact:
        case file.FileCreated() | file.FileModified():
            return f"{fact.path}  {_facts(fact.facts)}"
        case file.FileDeleted():
            return fact.path
        case file.FileMoved():
            return f"{fact.moved_from} → {fact.path}"
        case file.FileBatch():
            counted = Counter(change.action for change in fact.changes)
            counts = ", ".join(f"{count} {action}" for action, count in counted.items())
            return f"{counts}: {', '.join(change.path for change in fact.changes[:3])} …"
        case file.FileReady() | file.FileManifest():
            return f"{fact.files} entries"
        case file.FileOverflow():
            return fact.reason
        case file.FileError():
            return f"{fact.path}  {fact.failure.message}"
    return None


def _facts(facts: file.FileFacts) -> str:
    match facts.kind:
        case file.EntryKind.FILE:
            return f"{facts.size} bytes"
        case file.EntryKind.SYMLINK:
            return f"→ {facts.symlink}"
    return facts.kind


def _of_others(fact: Fact) -> str | None:
    match fact:
        case tool.ToolInvoked():
            return f"{fact.tool} {fact.arguments.get('path', '')}"
        case tool.ToolReturned():
            how = "done" if fact.failure is None else f"{fact.failure.code}: {fact.failure.message}"
            return f"{fact.tool} {how} in {fact.duration_ms:.0f} ms"
        case health.HealthHealthy() | health.HealthUnhealthy():
            return fact.reason
        case health.HealthLimitExceeded():
            return f"{fact.limit}: {fact.used:g} of {fact.allowed:g}, {fact.action}"
        case health.HealthDied():
            return f"{fact.cause}: {fact.detail}"
        case guardian.GuardianObserved():
            return f"{fact.rule}: {fact.finding}"
        case guardian.GuardianIntervention():
            return f"{fact.rule}: {fact.step}: {fact.text}"
        case guardian.GuardianEscalated():
            return f"{fact.rule}: {fact.step}: {fact.reason}"
        case DeadLetter():
            return f"{fact.reason.code}: {fact.reason.message}"
    return None
