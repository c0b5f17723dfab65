"""Whether a log is complete and unchanged, as far as it can prove that itself."""

from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from contracts.anchoring import Kept
from contracts.chain import Fault, Message, leaf
from contracts.chain_check import ChainCheck
from contracts.contents import named_by
from contracts.events import command
from contracts.events.audit import AuditCheckpoint, AuditDamaged, AuditRotated
from contracts.findings import MOST_CHARACTERS, Finding, Findings
from contracts.keyring import Check
from contracts.message import Fact
from contracts.naming import Names
from contracts.proof import Fault as CommandFault
from contracts.proof import Proof
from contracts.scope import Scope, Trust
from contracts.subjects import NO_SANDBOX

__all__ = ["Finding", "Kept", "Scope", "Trust", "Verdict", "Verifier"]


class _Typed(Struct, frozen=True):
    type: str


class _Started(_Typed, frozen=True):
    data: command.CommandStarted


class _Input(_Typed, frozen=True):
    data: command.CommandInput


class _Output(_Typed, frozen=True):
    data: command.CommandOutput


class _Completed(_Typed, frozen=True):
    data: command.CommandCompleted


class _TimedOut(_Typed, frozen=True):
    data: command.CommandTimedOut


class _Cancelled(_Typed, frozen=True):
    data: command.CommandCancelled


class _Rejected(_Typed, frozen=True):
    data: command.CommandRejected


class _Lost(_Typed, frozen=True):
    data: command.CommandLost


class _Checkpoint(_Typed, frozen=True):
    data: AuditCheckpoint


class _Rotated(_Typed, frozen=True):
    data: AuditRotated


class _Damaged(_Typed, frozen=True):
    data: AuditDamaged


Decoder = msgspec.json.Decoder
_COMMANDS: dict[str, tuple[str, Decoder[Any]]] = {
    "started": ("command.started", Decoder(_Started)),
    "input": ("command.input", Decoder(_Input)),
    "output": ("command.output", Decoder(_Output)),
    "completed": ("command.completed", Decoder(_Completed)),
    "timed_out": ("command.timed_out", Decoder(_TimedOut)),
    "cancelled": ("command.cancelled", Decoder(_Cancelled)),
    "rejected": ("command.rejected", Decoder(_Rejected)),
    "lost": ("command.lost", Decoder(_Lost)),
}
"""Straight to what is needed, by the subject: the rest of an envelope costs as much again."""
_AUDITS: dict[str, Decoder[Any]] = {
    "checkpoint": Decoder(_Checkpoint),
    "rotated": Decoder(_Rotated),
    "damaged": Decoder(_Damaged),
}
_NAMING = frozenset({"file", "sandbox", "agent"})
"""Families whose events may name contents."""
_MOST_DAMAGES = 1000


class Verdict(NamedTuple):
    sandbox: str | None
    """None = the whole log."""
    log: str
    events: int
    first_sequence: int
    """Where the record begins. What was before is not kept, or was not exported."""
    from_beginning: bool
    """The first event of the log, or of the sandbox, is there: nothing was dropped, or left out, before it."""
    last_sequence: int
    checkpoints: int
    proven_from: int
    proven_to: int
    """Everything from `proven_from` to here is under a signature. 0 = nothing is."""
    unproven: int
    """Events after that: a checkpoint is still to come."""
    keys: tuple[str, ...]
    """Who signed, oldest first."""
    trusted: bool
    """Whether somebody said which keys to trust."""
    anchors: int
    """That say the same."""
    later: int
    """How far the log went, by anchors that are newer than the export. 0 = they tell of nothing."""
    commands: int
    ended: int
    open: tuple[str, ...]
    bytes: int
    contents: int
    """Contents of files and lists of them that were checked. -1 = they were left out."""
    findings: tuple[Finding, ...]
    """By sequence: the first one is the first sequence that is wrong."""
    more: int
    """Findings besides."""


class Verifier:
    """Fed with the stored messages of a log in order of sequence: with all of them, or with those of one sandbox and
    the `audit` ones.

    Memory does not grow with the log, but for 40 bytes of each event since the last checkpoint, 16 of each command and
    about 200 of each content that is named. Anchors are held as long as their place holds them: see `Anchors`.
    """

    def __init__(self, check: Check, scope: Scope, trust: Trust) -> None:
        """`check` says whether the owner of a public key has signed a statement."""
        self.scope = scope
        self.findings = Findings()
        self.names = Names(self.findings)
        self._chain = ChainCheck(check, scope, trust, self.findings)
        self._proof = Proof(partial=scope.first > 1)
        self._own = trust.own
        self._damages: list[Finding] = []
        self._events = 0
        self._from_beginning = scope.sandbox is None and scope.first == 1

    @property
    def last(self) -> int:
        """The last sequence that was fed."""
        return self._chain.last

    def feed(self, message: Message) -> None:
        if not self._chain.add(message.sequence, leaf(message)):
            return
        self._events += 1
        parts = message.subject.split(".")
        if len(parts) < 5:
            self.findings.add(message.sequence, Fault.UNREADABLE, "not the subject of an event")
            return
        sandbox, family, kind = parts[2], parts[3], parts[4]
        if family == "audit" and sandbox == NO_SANDBOX:
            self._audit(message, kind)
            return
        self._chain.seen(message.sequence)
        if kind == "creating" and family == "sandbox" and sandbox == self.scope.sandbox:
            # None of its commands can have begun before.
            self._from_beginning, self._proof.partial = True, False
        if family == "command":
            self._command(message, sandbox, kind, parts[5] if len(parts) > 5 else "")
        elif family in _NAMING:
            self.names.add(message.sequence, named_by(message.subject, message.payload))

    def unreadable(self, detail: str) -> None:
        """Something that is no message stands after the last one."""
        self.findings.add(self.last + 1, Fault.UNREADABLE, detail)

    def _command(self, message: Message, sandbox: str, kind: str, exec_id: str) -> None:
        known = _COMMANDS.get(kind)
        if known is None:
            return
        tag, decoder = known
        try:
            event = decoder.decode(message.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._proof.find(message.sequence, sandbox, "", CommandFault.UNREADABLE, str(error))
            return
        if event.type != tag:
            detail = f"says that it is {event.type!a}, on a subject for {tag}"
            self._proof.find(message.sequence, sandbox, "", CommandFault.UNREADABLE, detail)
            return
        if event.data.exec != exec_id:
            detail = f"says that it is of {event.data.exec!a}, on a subject for {exec_id!a}"
            self._proof.find(message.sequence, sandbox, "", CommandFault.UNREADABLE, detail)
            return
        self._proof.tell(message.sequence, sandbox, kind, event.data)

    def _audit(self, message: Message, kind: str) -> None:
        self._chain.own(message.sequence)
        decoder = _AUDITS.get(kind)
        if decoder is None:
            return
        try:
            fact: Fact = decoder.decode(message.payload).data
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.findings.add(message.sequence, Fault.UNREADABLE, f"not an audit.{kind}: {error}")
            if kind == "checkpoint":
                self._chain.refuse(message.sequence)
            return
        match fact:
            case AuditCheckpoint():
                self._chain.checkpoint(message.sequence, fact)
            case AuditRotated():
                self._chain.rotated(message.sequence, fact)
            case AuditDamaged() if len(self._damages) < _MOST_DAMAGES:
                detail = f"told by the log itself: {fact.detail[:MOST_CHARACTERS]}"
                fault = fact.fault[:MOST_CHARACTERS]
                self._damages.append(Finding(fact.first_sequence, fact.last_sequence, fault, detail))

    def finish(self, contents: int = -1) -> Verdict:
        """When all is fed, and `contents` were checked."""
        chain = self._chain
        chain.close()
        summary = self._proof.summary()
        for found in summary.findings:
            where = " ".join(part for part in (found.sandbox, found.exec) if part)
            self.findings.add(found.sequence, found.fault, f"{where}: {found.detail}")
        self._tell_damages()
        return Verdict(
            self.scope.sandbox,
            chain.log,
            self._events,
            self.scope.first,
            self._from_beginning,
            chain.last,
            chain.checkpoints,
            chain.proven_from,
            chain.proven_to,
            chain.unproven,
            chain.keyring.signers,
            chain.keyring.is_given or self._own is not None,
            chain.agreeing,
            chain.later,
            summary.commands,
            summary.ended,
            summary.open,
            summary.bytes,
            contents,
            self.findings.in_order(),
            self.findings.more + summary.more,
        )

    def _tell_damages(self) -> None:
        """What the log tells of itself, unless it was found here as well."""
        found = {(finding.sequence, finding.fault) for finding in self.findings.in_order()}
        for first, last, fault, detail in self._damages:
            if (first, fault) not in found and self._chain.concerns(first, last):
                self.findings.add(first, fault, detail, last=last)
