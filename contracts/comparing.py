"""Two runs side by side: where they part, and what is different in all. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from contracts.aligning import Pair, align
from contracts.events.file import EntryKind
from contracts.manifest import Entry
from contracts.spec import SandboxSpec
from contracts.steps import Spent, Step

MOST_LISTED = 1000
"""Of each kind of difference; further ones are counted."""


class Both(Struct, frozen=True, kw_only=True):
    a: Step
    b: Step


class Divergence(Struct, frozen=True, kw_only=True):
    why: str
    """`other step`, `other outcome`, `other output`, `a ended`, `b ended`."""
    after: Both | None = None
    """The last step that was the same on both sides. None = they part at the beginning."""
    a: Step | None = None
    b: Step | None = None


class StepsCompared(Struct, frozen=True, kw_only=True):
    a_steps: int
    b_steps: int
    same: int
    """Steps that are the same on both sides, with the same outcome and output."""
    divergence: Divergence | None = None
    """None = all steps are the same."""
    only_a: tuple[Step, ...] = ()
    only_a_count: int = 0
    only_b: tuple[Step, ...] = ()
    only_b_count: int = 0
    differing: tuple[Both, ...] = ()
    """The same deed with another outcome, or another output."""
    differing_count: int = 0


class FilesCompared(Struct, frozen=True, kw_only=True):
    same: int = 0
    only_a: tuple[str, ...] = ()
    only_a_count: int = 0
    only_b: tuple[str, ...] = ()
    only_b_count: int = 0
    differing: tuple[str, ...] = ()
    differing_count: int = 0

    @property
    def are_same(self) -> bool:
        return not (self.only_a_count or self.only_b_count or self.differing_count)


class FieldCompared(Struct, frozen=True, kw_only=True):
    path: str
    a: Any
    b: Any


class SpentCompared(Struct, frozen=True, kw_only=True):
    a: Spent
    b: Spent


def compare_steps(a: Sequence[Step], b: Sequence[Step], *, outputs: bool = True) -> StepsCompared:
    """`outputs` = False: steps are the same if they ended in the same way, whatever they wrote."""
    pairs = align([step.key for step in a], [step.key for step in b])
    matched = [Both(a=a[at_a], b=b[at_b]) for at_a, at_b in pairs if at_a is not None and at_b is not None]
    differing = [each for each in matched if _difference(each, outputs=outputs)]
    only_a = [a[at] for at, other in pairs if other is None and at is not None]
    only_b = [b[at] for other, at in pairs if other is None and at is not None]
    return StepsCompared(
        a_steps=len(a),
        b_steps=len(b),
        same=len(matched) - len(differing),
        divergence=first_divergence(a, b, pairs, outputs=outputs),
        only_a=tuple(only_a[:MOST_LISTED]),
        only_a_count=len(only_a),
        only_b=tuple(only_b[:MOST_LISTED]),
        only_b_count=len(only_b),
        differing=tuple(differing[:MOST_LISTED]),
        differing_count=len(differing),
    )


def first_divergence(
    a: Sequence[Step], b: Sequence[Step], pairs: Sequence[Pair], *, outputs: bool
) -> Divergence | None:
    """What was the first to be different, by the order in which it was told: a command that runs for long may have
    begun before it, and end differently after it.
    """
    parting = next((at for at, pair in enumerate(pairs) if None in pair), len(pairs))
    common = [Both(a=a[at_a], b=b[at_b]) for at_a, at_b in pairs[:parting] if at_a is not None and at_b is not None]
    unlike = [at for at, each in enumerate(common) if _difference(each, outputs=outputs)]
    first = min(unlike, key=lambda at: common[at].a.last_sequence, default=None)
    other_a = a[parting] if parting < len(a) else None
    other_b = b[parting] if parting < len(b) else None
    if first is not None and (other_a is None or _is_before(common[first], other_a)):
        told = common[first]
        return Divergence(
            why=_difference(told, outputs=outputs), after=common[first - 1] if first else None, a=told.a, b=told.b
        )
    if other_a is None and other_b is None:
        return None
    why = "a ended" if other_a is None else "b ended" if other_b is None else "other step"
    return Divergence(why=why, after=common[-1] if common else None, a=other_a, b=other_b)


def _is_before(unlike: Both, other: Step) -> bool:
    return unlike.a.sandbox != other.sandbox or unlike.a.last_sequence < other.sequence


def _difference(both: Both, *, outputs: bool) -> str:
    """Empty where there is none."""
    if both.a.outcome != both.b.outcome:
        return "other outcome"
    return "other output" if outputs and both.a.output != both.b.output else ""


def compare_trees(a: Mapping[bytes, Entry], b: Mapping[bytes, Entry]) -> FilesCompared:
    """By kind and content; times and modes do not count."""
    only_a = [a[path].path for path in sorted(a) if path not in b]
    only_b = [b[path].path for path in sorted(b) if path not in a]
    both = [path for path in sorted(a) if path in b]
    differing = [a[path].path for path in both if not _is_same(a[path], b[path])]
    return FilesCompared(
        same=len(both) - len(differing),
        only_a=tuple(only_a[:MOST_LISTED]),
        only_a_count=len(only_a),
        only_b=tuple(only_b[:MOST_LISTED]),
        only_b_count=len(only_b),
        differing=tuple(differing[:MOST_LISTED]),
        differing_count=len(differing),
    )


def _is_same(a: Entry, b: Entry) -> bool:
    if a.kind != b.kind:
        return False
    if a.kind == EntryKind.FILE:
        return (a.sha256, a.size) == (b.sha256, b.size)
    return (a.symlink, a.symlink_bytes) == (b.symlink, b.symlink_bytes)


def compare_specs(a: SandboxSpec, b: SandboxSpec) -> tuple[FieldCompared, ...]:
    """The fields of the specification that are different, by their paths."""
    return tuple(_fields("", msgspec.to_builtins(a), msgspec.to_builtins(b)))


def _fields(path: str, a: Any, b: Any) -> list[FieldCompared]:
    if isinstance(a, dict) and isinstance(b, dict):
        found: list[FieldCompared] = []
        for name in sorted({*a, *b}):
            found += _fields(f"{path}.{name}" if path else name, a.get(name), b.get(name))
        return found
    return [] if a == b else [FieldCompared(path=path, a=a, b=b)]
