"""What else happens in a sandbox while an agent works in it, in the story of its run."""

from rich.text import Text

from contracts.events import file, guardian, health, network, sandbox
from contracts.message import Fact
from infra.words.escaping import printable

KINDS = (
    "file.created", "file.modified", "file.deleted", "file.moved", "file.batch", "network.denied", "network.asked",
    "guardian.intervention", "guardian.escalated", "health.died", "sandbox.stopped", "sandbox.paused",
    "sandbox.resumed", "sandbox.failed", "sandbox.recovering", "sandbox.recovered", "sandbox.removed",
)  # fmt: skip
PATH = 200
FEW = 3


def surroundings(fact: Fact) -> list[Text]:
    words = _files(fact)
    if words is not None:
        return [Text(f"  {words}", style="dim")]
    return [Text(f"  {words}", style="yellow") for words in (_others(fact),) if words is not None]


def _files(fact: Fact) -> str | None:
    match fact:
        case file.FileCreated():
            return f"+ {printable(fact.path, PATH)}"
        case file.FileModified():
            return f"~ {printable(fact.path, PATH)}"
        case file.FileDeleted():
            return f"- {printable(fact.path, PATH)}"
        case file.FileMoved():
            return f"{printable(fact.moved_from, PATH)} → {printable(fact.path, PATH)}"
        case file.FileBatch():
            names = ", ".join(printable(change.path, PATH) for change in fact.changes[:FEW])
            return f"~ {len(fact.changes)} files: {names}{' …' if len(fact.changes) > FEW else ''}"
    return None


def _others(fact: Fact) -> str | None:
    match fact:
        case network.NetworkDenied():
            return f"network: {printable(fact.host, PATH)}:{fact.port} was denied: {printable(fact.reason, PATH)}"
        case network.NetworkAsked():
            return f"network: {printable(fact.host, PATH)}:{fact.port} waits for an answer: `cloche net`"
        case guardian.GuardianIntervention():
            return f"guardian ({fact.rule}, {fact.step}): {printable(fact.text, PATH)}"
        case guardian.GuardianEscalated():
            return f"guardian ({fact.rule}, {fact.step}): {printable(fact.reason, PATH)}"
        case health.HealthDied():
            return f"the sandbox died: {fact.cause}: {printable(fact.detail, PATH)}"
        case sandbox.SandboxStopped() | sandbox.SandboxRemoved() | sandbox.SandboxRecovering():
            what = {"SandboxStopped": "was stopped", "SandboxRemoved": "was removed"}.get(type(fact).__name__)
            return f"the sandbox {what or 'is being recovered'}: {printable(fact.reason, PATH)}"
        case sandbox.SandboxPaused():
            return "the sandbox is paused"
        case sandbox.SandboxResumed():
            return "the sandbox goes on"
        case sandbox.SandboxFailed():
            return f"the sandbox failed: {printable(fact.failure.message, PATH)}"
        case sandbox.SandboxRecovered():
            return "the sandbox is there again"
    return None
