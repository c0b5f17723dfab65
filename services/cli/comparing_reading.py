"""What two sandboxes did, read from their logs: from where one was forked from the other, or both from a third."""

from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct

from contracts import codec, subjects
from contracts.comparing import (
    FieldCompared,
    FilesCompared,
    SpentCompared,
    StepsCompared,
    compare_specs,
    compare_steps,
    compare_trees,
)
from contracts.errors import ClocheError, Invalid, SandboxNotFound
from contracts.manifest import Tree
from contracts.spec import SandboxSpec
from contracts.state import Status
from contracts.steps import Steps
from infra.client import Cloche
from infra.lineage import lifecycle_at, line_of
from infra.log.choosing import view_of
from infra.log.view import LogView
from infra.manifest.history import tree_at

NOT_COMPARED = "workspace.source"
"""Told with where they come from."""


class Segment(NamedTuple):
    sandbox: str
    start: int
    end: int | None


class Common(Struct, frozen=True, kw_only=True):
    """Where both come from: up to there they are one."""

    sandbox: str
    sequence: int


class Side(Struct, frozen=True, kw_only=True):
    sandbox: str
    first_sequence: int
    last_sequence: int
    steps_left_out: int = 0
    has_files: bool = True


class Comparison(Struct, frozen=True, kw_only=True):
    a: Side
    b: Side
    common: Common | None
    steps: StepsCompared
    files: FilesCompared
    specification: tuple[FieldCompared, ...]
    spent: SpentCompared

    @property
    def is_same(self) -> bool:
        """What they spent does not count: no two runs take the same time."""
        return self.steps.divergence is None and self.files.are_same and not self.specification


class Past(NamedTuple):
    """One side, as far as it was read."""

    side: Side
    steps: Steps
    spec: SandboxSpec
    tree: Tree
    view: LogView


class Compared(NamedTuple):
    comparison: Comparison
    a: Past
    b: Past


async def compare(cloche: Cloche, a: str, b: str, *, outputs: bool) -> Compared:
    """Raises `SandboxNotFound`, `Invalid` for a sandbox and itself."""
    if a == b:
        raise Invalid(f"{a!r} and {b!r} are one sandbox: name two")
    segments_a, segments_b, common = await _histories(cloche, a, b)
    names = {each.sandbox for each in (*segments_a, *segments_b)}
    past_a, past_b = await _past(cloche, segments_a, names), await _past(cloche, segments_b, names)
    fields = compare_specs(past_a.spec, past_b.spec)
    comparison = Comparison(
        a=past_a.side,
        b=past_b.side,
        common=common,
        steps=compare_steps(past_a.steps.steps, past_b.steps.steps, outputs=outputs),
        files=compare_trees(past_a.tree, past_b.tree),
        specification=tuple(each for each in fields if not each.path.startswith(NOT_COMPARED)),
        spent=SpentCompared(a=past_a.steps.spent, b=past_b.steps.spent),
    )
    return Compared(comparison, past_a, past_b)


async def _histories(cloche: Cloche, a: str, b: str) -> tuple[list[Segment], list[Segment], Common | None]:
    line_a, line_b = await _line(cloche, a), await _line(cloche, b)
    ends_b = dict(line_b)
    shared = next((name for name, _ in line_a if name in ends_b), None)
    if shared is None:
        return [Segment(a, 1, None)], [Segment(b, 1, None)], None
    ends = [end for end in (dict(line_a)[shared], ends_b[shared]) if end is not None]
    fork = Common(sandbox=shared, sequence=min(ends))
    return _segments(line_a, fork), _segments(line_b, fork), fork


async def _line(cloche: Cloche, sandbox: str) -> list[tuple[str, int | None]]:
    """The sandbox and what it comes from, each with the sequence up to which it counts."""
    origins = await line_of(cloche.bus_of(sandbox), sandbox)
    return [(sandbox, None), *((each.sandbox, each.sequence) for each in origins)]


def _segments(line: list[tuple[str, int | None]], fork: Common) -> list[Segment]:
    found: list[Segment] = []
    for name, end in line:
        start = fork.sequence + 1 if name == fork.sandbox else 1
        if end is None or end >= start:
            found.append(Segment(name, start, end))
        if name == fork.sandbox:
            break
    return found[::-1]


async def _past(cloche: Cloche, segments: list[Segment], names: set[str]) -> Past:
    steps, newest = Steps(names), segments[-1]
    await _flush(cloche, newest.sandbox)
    first = last = 0
    for segment in segments:
        view = await view_of(cloche.bus_of(segment.sandbox), segment.sandbox)
        async for entry in view.read(subjects.events_of(segment.sandbox), segment.start, end=segment.end):
            with suppress(Invalid):
                head = codec.decode_head(entry.data)
                fact = codec.decode_fact(head)
                if fact is not None:
                    steps.feed(entry.seq, head, fact)
            first, last = first or entry.seq, entry.seq
    view = await view_of(cloche.bus_of(newest.sandbox), newest.sandbox)
    end = newest.end or (await view.bounds()).last
    state = await lifecycle_at(cloche.bus_of(newest.sandbox), newest.sandbox, end)
    if state is None:
        raise SandboxNotFound(f"there is no sandbox {newest.sandbox!r}: see `cloche ps --all`")
    found = await tree_at(view, newest.sandbox, end)
    side = Side(
        sandbox=newest.sandbox,
        first_sequence=first,
        last_sequence=last,
        steps_left_out=steps.left_out,
        has_files=found is not None,
    )
    return Past(side, steps, state.spec, {} if found is None else found.tree, view)


async def _flush(cloche: Cloche, sandbox: str) -> None:
    """What is in its workspace now is on record then, where it has one."""
    with suppress(ClocheError):
        found = await cloche.sandbox(sandbox)
        if found.state.status in (Status.RUNNING, Status.PAUSED, Status.STOPPED):
            await found.flush()
