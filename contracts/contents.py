"""Which contents an event names: what a file held, what was remembered of a conversation, and lists of whole trees."""

from typing import NamedTuple

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events.agent import AgentTranscript
from contracts.events.file import FileBatch, FileCreated, FileFacts, FileManifest, FileModified, FileMoved, FileReady
from contracts.events.sandbox import SandboxSnapshotted
from contracts.message import Fact

_FAMILIES = frozenset({"file", "sandbox", "agent"})
_KINDS = frozenset({"snapshotted", "transcript"})


class Named(NamedTuple):
    contents: tuple[str, ...] = ()
    """sha256 of each."""
    manifest: str | None = None
    """The one whose own lines name more contents."""


def named_by(subject: str, payload: bytes) -> Named:
    """What the event with this subject names; nothing where it cannot be read."""
    parts = subject.split(".")
    family, kind = parts[3:5] if len(parts) > 4 else ("", "")
    if family not in _FAMILIES or (family != "file" and kind not in _KINDS):
        return Named()
    try:
        subjects.parse_event(subject)
        fact = codec.decode_fact(codec.decode_head(payload))
    except Invalid:
        return Named()
    return Named() if fact is None else _named(fact)


def _named(fact: Fact) -> Named:
    if isinstance(fact, FileReady | FileManifest | SandboxSnapshotted):
        return Named(manifest=fact.manifest)
    if isinstance(fact, FileCreated | FileModified | FileMoved):
        return Named(_held([fact.facts]))
    if isinstance(fact, FileBatch):
        return Named(_held([change.facts for change in fact.changes]))
    if isinstance(fact, AgentTranscript) and fact.data is None:
        return Named((fact.sha256,))
    return Named()


def _held(all_facts: list[FileFacts | None]) -> tuple[str, ...]:
    return tuple(facts.blob for facts in all_facts if facts is not None and facts.blob is not None)
