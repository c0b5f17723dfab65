"""How a sandbox came, moved and went, in its story."""

from contracts.askers import asker
from contracts.events import sandbox
from contracts.message import EventHead, Fact
from contracts.spec import CopyDirectory, ForkOf, GitWorktree, SandboxSpec
from services.cli.showing_items import Lifecycle


def moved(sequence: int, head: EventHead, fact: Fact) -> Lifecycle | None:
    text = _words(head, fact)
    if text is None:
        return None
    bad = isinstance(fact, sandbox.SandboxFailed | sandbox.SandboxRecovering) or (
        isinstance(fact, sandbox.SandboxStopped) and fact.failure is not None
    )
    who = asker(getattr(fact, "by", ""))
    return Lifecycle(sequence=sequence, at=head.time, text=f"{text}, by {who}" if who else text, bad=bad)


def _words(head: EventHead, fact: Fact) -> str | None:
    match fact:
        case sandbox.SandboxCreating():
            by = f", as command {head.correlationid} asked" if head.correlationid else ""
            return f"made on node {fact.node} as a {fact.isolation} sandbox{origin(fact.spec)}{by}"
        case sandbox.SandboxCreated():
            return "; ".join(fact.notes) or None
        case sandbox.SandboxStarted():
            return "started"
        case sandbox.SandboxPaused():
            return "paused"
        case sandbox.SandboxResumed():
            return "goes on"
        case sandbox.SandboxStopped():
            return f"stopped{_because(fact.reason)}"
        case sandbox.SandboxRemoved():
            return f"removed{_because(fact.reason)}"
        case sandbox.SandboxFailed():
            return f"failed: {fact.failure.message} ({fact.failure.code})"
        case sandbox.SandboxSnapshotted():
            label = f" {fact.label!r}" if fact.label else ""
            return f"snapshot{label}: {fact.files} entries, {fact.size:,} bytes"
    return _recovery(fact)


def _recovery(fact: Fact) -> str | None:
    match fact:
        case sandbox.SandboxRecovering():
            return f"to be recovered on node {fact.node}, attempt {fact.attempt}{_because(fact.reason)}"
        case sandbox.SandboxRecovered():
            kept = "as it was" if fact.restored_sequence is None else f"of sequence {fact.restored_sequence}"
            return "; ".join((f"recovered, its workspace {kept}", *fact.notes))
        case sandbox.SandboxNetworkChanged(network=given):
            allowed = ", ".join((*given.presets, *given.allowed_hosts)) or "nothing"
            return f"its network changed: {given.mode}, and it may reach {allowed}"
    return None


def origin(spec: SandboxSpec) -> str:
    match spec.workspace.source:
        case ForkOf(sandbox=of, sequence=sequence):
            return f", a fork of {of} at sequence {sequence}"
        case GitWorktree(repository=repository, ref=ref, branch=branch):
            return f", with {repository} at {ref}{f' on {branch}' if branch else ''}"
        case CopyDirectory(path=path):
            return f", with a copy of {path}"
    return ""


def _because(reason: str) -> str:
    return "" if reason in ("", "asked") else f": {reason}"
