"""Whose signatures on a log count: keys that somebody trusts, and those that a rotation ties to them."""

from collections.abc import Callable, Iterable

from contracts.chain import Fault, rotation_statement
from contracts.events.audit import AuditRotated
from contracts.findings import Findings

Check = Callable[[str, bytes, str], bool]
"""Whether the owner of a public key signed a statement: key, statement, signature."""
MOST_KEYS = 10_000
"""A log with more of them is not one of ours."""


class Keyring:
    """Fed with all rotations and signers of a log, in its order.

    Where nobody is trusted, `own` is, the key of whoever asks; without that the first signer: then a signature says
    that the log has one author, not who that is.
    """

    def __init__(self, check: Check, trusted: Iterable[str], own: str | None, findings: Findings) -> None:
        self._check = check
        self._trusted = tuple(dict.fromkeys(trusted))
        self._own = own
        self._findings = findings
        self._signers: dict[str, int] = {}
        self._tied: dict[str, set[str]] = {}
        self._replaced: dict[str, int] = {}
        self._unsigned: list[tuple[int, AuditRotated]] = []

    @property
    def signers(self) -> tuple[str, ...]:
        """All that signed, in the order of their first signature."""
        return tuple(self._signers)

    @property
    def is_given(self) -> bool:
        """Whether somebody said whom to trust."""
        return bool(self._trusted)

    def rotated(self, sequence: int, rotated: AuditRotated) -> None:
        """The old key says who follows it, and the new one agrees; without both, nothing ties them."""
        said = rotation_statement(rotated)
        agreed = self._check(rotated.next, said, rotated.proof)
        if agreed and self._check(rotated.key, said, rotated.signature):
            self._replace(sequence, rotated)
        elif not agreed or rotated.signature:
            self._findings.add(sequence, Fault.BAD_SIGNATURE, "a change of keys that is not signed by both")
        elif len(self._unsigned) < MOST_KEYS:
            self._unsigned.append((sequence, rotated))

    def _replace(self, sequence: int, rotated: AuditRotated) -> None:
        """Once for each key: it may have been replaced because somebody else has it."""
        if (replaced := self._replaced.get(rotated.key)) is not None:
            detail = f"a change of keys by {short(rotated.key)}, which was replaced at sequence {replaced}"
            self._findings.add(sequence, Fault.UNKNOWN_KEY, detail)
        elif len(self._replaced) < MOST_KEYS:
            self._replaced[rotated.key] = sequence
            self._tie(rotated.key, rotated.next)

    def _tie(self, one: str, other: str) -> None:
        if len(self._tied) < MOST_KEYS:
            self._tied.setdefault(one, set()).add(other)
            self._tied.setdefault(other, set()).add(one)

    def signed(self, sequence: int, key: str, *, up_to: int) -> None:
        """By a checkpoint, whose signature is right, about everything `up_to` a sequence."""
        if (replaced := self._replaced.get(key, up_to)) < up_to:
            detail = f"signed by {short(key)}, which was replaced at sequence {replaced}"
            self._findings.add(sequence, Fault.UNKNOWN_KEY, detail)
        elif len(self._signers) < MOST_KEYS:
            self._signers.setdefault(key, sequence)

    def close(self) -> None:
        """When all is read: a key may be tied to one that is trusted by a later rotation."""
        base = self._trusted or ((self._own,) if self._own else self.signers[:1])
        for sequence, rotated in self._unsigned:
            self._close_unsigned(sequence, rotated, self._reached(base))
        known = self._reached(base)
        for key, sequence in self._signers.items():
            if key not in known:
                ties = "no rotation ties it to " + (" or ".join(map(short, base)))
                self._findings.add(sequence, Fault.UNKNOWN_KEY, f"signed by {short(key)}: {ties}")

    def _close_unsigned(self, sequence: int, rotated: AuditRotated, known: set[str]) -> None:
        """The old key was lost. Whoever asks with a key of his own gives his word for it."""
        if rotated.next not in known:
            ties = f"the key before it was lost: nothing but its owner's word ties {short(rotated.next)} to the log"
            self._findings.add(sequence, Fault.UNKNOWN_KEY, f"{ties}. `--key {rotated.next}` takes that word")
        if rotated.next not in known or not self._trusted:
            self._tie(rotated.key, rotated.next)

    def _reached(self, start: Iterable[str]) -> set[str]:
        reached: set[str] = set()
        waiting = list(start)
        while waiting:
            if (key := waiting.pop()) not in reached:
                reached.add(key)
                waiting += self._tied.get(key, ())
        return reached


def short(key: str) -> str:
    """For a person. A key comes out of a log that may be anybody's."""
    return f"key {ascii(key[:16])[1:-1]}…"
