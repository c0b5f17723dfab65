"""The verdict on a log, in words and as JSON. Pure."""

from typing import Any

from contracts.findings import Finding
from contracts.verifying import Verdict
from infra.words.escaping import printable

DETAIL = 500


def as_json(verdict: Verdict) -> dict[str, Any]:
    findings = [finding._asdict() for finding in verdict.findings]
    first = verdict.findings[0].sequence if verdict.findings else None
    return {"ok": not findings, "first_bad_sequence": first, **verdict._asdict(), "findings": findings}


def lines(verdict: Verdict) -> list[str]:
    """The faults, then what holds. The last line but one says how far the proof reaches."""
    told = [_fault(finding) for finding in verdict.findings]
    if verdict.more:
        told.append(f"and {verdict.more} more")
    return [*told, _counts(verdict), *_proof(verdict), *_contents(verdict), *_rest(verdict)]


def _fault(finding: Finding) -> str:
    where = f"sequence {finding.sequence}"
    if finding.last > finding.sequence:
        where += f" to {finding.last}"
    return f"{where}: {printable(finding.fault, 80).replace('_', ' ')}: {printable(finding.detail, DETAIL)}"


def _counts(verdict: Verdict) -> str:
    judged = "complete"
    if verdict.findings:
        count = len(verdict.findings) + verdict.more
        judged = f"{_many(count, 'FAULT').upper()}, the first at sequence {verdict.findings[0].sequence}"
    still = f", {len(verdict.open)} still running" if verdict.open else ""
    return (
        f"{judged}: {verdict.events} events, {verdict.commands} commands, {verdict.ended} ended exactly once{still}, "
        f"{verdict.bytes} bytes accounted for"
    )


def _proof(verdict: Verdict) -> list[str]:
    if not verdict.proven_to:
        return ["not proven: no checkpoint has signed any of it yet"]
    whose = " and ".join(f"key {printable(key, 80)}" for key in verdict.keys) or "nobody"
    told = f"sequence {verdict.proven_from} to {verdict.proven_to} of {verdict.last_sequence}"
    anchors = f", as {_many(verdict.anchors, 'anchor')} kept elsewhere" if verdict.anchors else ""
    word = "proven" if not verdict.findings else "signed"
    said = [f"{word}: {told}, in {_many(verdict.checkpoints, 'checkpoint')} by {whose}{anchors}"]
    if verdict.unproven:
        said.append(f"not proven yet: {_many(verdict.unproven, 'event')} after that; the next checkpoint covers them")
    return said


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _contents(verdict: Verdict) -> list[str]:
    if verdict.contents < 0:
        return ["not checked: the contents of files"]
    return [f"contents: {verdict.contents} looked at, each is what its name says"] if not verdict.findings else []


def _rest(verdict: Verdict) -> list[str]:
    """What whoever reads this should know besides."""
    said: list[str] = []
    if verdict.first_sequence > 1 and verdict.sandbox is None:
        said.append(f"what was before sequence {verdict.first_sequence} is not kept")
    elif verdict.proven_from > verdict.first_sequence:
        said.append(f"what was before sequence {verdict.proven_from} was written before its chain began")
    if verdict.sandbox is not None and not verdict.from_beginning:
        begins = f"what was before sequence {verdict.first_sequence} is not in it"
        said.append(f"it does not begin with the sandbox: {begins}")
    if verdict.later:
        said.append(f"the anchors tell of more, up to sequence {verdict.later}: the log went on after the export")
    if verdict.keys and not verdict.trusted:
        said.append("nobody vouches for that key here: `--key` holds it against one that you know")
    return said
