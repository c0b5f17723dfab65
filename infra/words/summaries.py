"""What an event says, in a few words of one line. Not escaped yet."""

from collections import Counter

from contracts import codec
from contracts.askers import asker
from contracts.errors import Invalid
from contracts.events import command, file, guardian, health, network, sandbox, tool
from contracts.events.audit import (
    AuditCheckpoint,
    AuditDamaged,
    AuditHeir,
    AuditRotated,
    AuditStandby,
    DeadLetter,
)
from contracts.message import EventHead, Fact
from contracts.spec import ForkOf, SandboxSpec
from infra.words.agent_summaries import of_agent

ORDERED = frozenset({"command", "sandbox", "tool"})
"""Families whose words do not say by themselves who asked."""


def summary(head: EventHead) -> str:
    """Its data as it stands, where there are no better words."""
    try:
        fact = codec.decode_fact(head)
    except Invalid:
        # Whatever it is, what comes after it can be told.
        fact = None
    words = None
    family = head.type.partition(".")[0]
    if fact is not None:
        match family:
            case "command":
                words = _of_command(fact)
            case "sandbox":
                words = _of_sandbox(fact)
            case "file":
                words = _of_file(fact)
            case "agent" | "user":
                words = of_agent(fact)
            case "network":
                words = of_network(fact)
            case _:
                words = _of_others(fact)
    if words is None or fact is None:
        return bytes(head.data).decode("utf-8", "replace")
    return f"{words}{_asked_by(fact) if family in ORDERED else ''}".lstrip()


def _asked_by(fact: Fact) -> str:
    who = asker(getattr(fact, "by", ""))
    return f"  by {who}" if who else ""


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
        case sandbox.SandboxCreating():
            return f"{fact.isolation} on node {fact.node}{_origin(fact.spec)}"
        case sandbox.SandboxCreated():
            return f"{fact.isolation} on node {fact.node}, workspace {fact.workspace}"
        case sandbox.SandboxStarted():
            return f"instance {fact.instance}"
        case sandbox.SandboxPaused() | sandbox.SandboxResumed():
            return ""
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
        case sandbox.SandboxNetworkChanged():
            allowed = ", ".join((*fact.network.presets, *fact.network.allowed_hosts)) or "nothing"
            ports = ", ".join(map(str, fact.network.allowed_ports)) or "none"
            return f"{fact.network.mode}: {allowed}; ports {ports}; others: {fact.network.unknown}"
    return None


def _origin(spec: SandboxSpec) -> str:
    source = spec.workspace.source
    return f", a fork of {source.sandbox} at {source.sequence}" if isinstance(source, ForkOf) else ""


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


def of_network(fact: Fact) -> str | None:
    match fact:
        case network.NetworkAllowed():
            return f"{fact.method} {fact.host}:{fact.port}{fact.path or ''}  {_outcome(fact)}"
        case network.NetworkBatch():
            hosts = Counter(f"{each.host}:{each.port}" for each in fact.requests)
            return f"{len(fact.requests)} requests: {', '.join(f'{count} {host}' for host, count in hosts.items())}"
        case network.NetworkDenied():
            times = f"  {fact.count} times" if fact.count > 1 else ""
            return f"{fact.method} {fact.host}:{fact.port}  denied: {fact.reason}{times}".lstrip()
        case network.NetworkAsked():
            return f"{fact.approval}  {fact.method} {fact.host}:{fact.port}  waits until {fact.expires_at:%H:%M:%S}"
        case network.NetworkApproved():
            return f"{fact.approval}  {fact.host}:{fact.port}  by {fact.by}{_kept(fact.remember, fact.reason)}"
        case network.NetworkRejected():
            who = "expired" if fact.expired else f"by {fact.by}"
            return f"{fact.approval}  {fact.host}:{fact.port}  {who}{_kept(fact.remember, fact.reason)}"
        case network.NetworkAttached():
            return f"{fact.proxy}, {fact.way}"
        case network.NetworkUnattached():
            return fact.reason
    return None


def _outcome(request: network.NetworkAllowed) -> str:
    how = request.error or (str(request.status) if request.status is not None else "done")
    sizes = f"{request.sent_bytes} bytes out, {request.received_bytes} in"
    return f"{how} in {request.duration_ms:.0f} ms, {sizes}"


def _kept(remember: bool, reason: str) -> str:
    return f"{', remembered' if remember else ''}{f': {reason}' if reason else ''}"


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
            return f"{fact.rule}: {f'{fact.step} ({fact.held}): ' if fact.held else ''}{fact.finding}"
        case guardian.GuardianIntervention():
            return f"{fact.rule}: {fact.step}: {fact.text}"
        case guardian.GuardianEscalated():
            return f"{fact.rule}: {fact.step}: {fact.reason}"
        case AuditCheckpoint():
            return f"{fact.first_sequence} to {fact.last_sequence}  {fact.hash[:16]}  signed by {fact.key[:16]}"
        case AuditRotated():
            return f"{fact.next[:16]} signs instead of {fact.key[:16]}: {fact.reason}"
        case AuditStandby():
            return f"node {fact.node} has {fact.key[:16]} ready"
        case AuditHeir():
            return f"{fact.key[:16]} names {fact.next[:16]} of node {fact.node} as its heir"
        case AuditDamaged():
            return f"{fact.first_sequence} to {fact.last_sequence}  {fact.fault}: {fact.detail}"
        case DeadLetter():
            return f"{fact.reason.code}: {fact.reason.message}"
    return None
