"""Where the chain goes on: from the last checkpoint in the log, compared with what is kept outside the store."""

import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from contracts import chain
from contracts.chain import Fault
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint
from contracts.findings import Finding
from infra.audit import place
from infra.audit.record import Kept, Record
from infra.audit.tail import Tail
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.reader import Bounds, patiently
from infra.watching.threads import in_thread
from services.replay.audit import past_checkpoints
from services.replay.audit.memory import Known, Memory

logger = logging.getLogger(__name__)

REMEMBERED = 100_000
"""Sequences behind the last checkpoint in the log that are compared one by one."""
OTHER_LOG = "the last checkpoint of the log is not the one that is kept outside"
ANOTHER_LOG = "this is not the log that was proven here before:"
NOT_CONTINUED = "this checkpoint does not continue the one that is kept outside"

Tell = Callable[[Finding], Awaitable[None]]


class Beginning(NamedTuple):
    log: str
    first: int
    """The next sequence that is to be proven."""
    previous: str
    guard: int
    """The sequence of the last checkpoint in the log, 0 for none."""
    checkpoint: Kept | None
    memory: Memory
    bounds: Bounds


class Files:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = Record(directory)
        self.tail = Tail(directory)


async def begin(bus: Bus, files: Files, node: str, tell: Tell) -> Beginning:
    """Tells what does not agree, then the files follow the log. Raises OSError where they cannot be read or written."""
    bounds = await patiently(bus, reader.bounds)
    newest, guard, author = await patiently(bus, past_checkpoints.newest)
    kept = await in_thread(files.record.last)
    log = await in_thread(_name, files, newest, kept)
    if kept is not None and kept.checkpoint.log != log:
        logger.error("%s is about another log, %s: it is left alone", files.directory, kept.checkpoint.log)
        if author in (None, node):
            # Else it is the log of another node, which keeps its own record of it.
            await tell(_broken(max(bounds.first, 1), f"{ANOTHER_LOG} {kept.checkpoint.log}"))
        await in_thread(files.tail.restart, [])
        kept = None
    if newest is not None:
        await _keep_up(bus, files, newest, kept, tell)
    if newest is None and kept is not None and bounds.first > kept.checkpoint.last_sequence:
        # Retention took the checkpoints themselves; nothing that is left was proven.
        newest = kept
    first = max(bounds.first, 1) if newest is None else newest.checkpoint.last_sequence + 1
    previous = chain.genesis(log) if newest is None else newest.checkpoint.hash
    return Beginning(log, first, previous, guard, newest, await in_thread(_remember, files, log, first), bounds)


def _name(files: Files, newest: Kept | None, kept: Kept | None) -> str:
    """The log's own word counts most."""
    written = place.log_name(files.directory)
    name = next((each.checkpoint.log for each in (newest, kept) if each is not None), written) or place.new_name()
    if name != written:
        place.keep_name(files.directory, name)
    return name


def _broken(sequence: int, detail: str) -> Finding:
    return Finding(sequence, sequence, Fault.BROKEN_CHAIN, detail)


async def _keep_up(bus: Bus, files: Files, newest: Kept, kept: Kept | None, tell: Tell) -> None:
    """What was written into the log and not yet into the file; and what is there instead of what the file says."""
    if await in_thread(_is_kept, files.record, newest):
        return
    if kept is not None and kept.checkpoint.last_sequence >= newest.checkpoint.last_sequence:
        await tell(_broken(await in_thread(_first_other, files.record, newest), OTHER_LOG))
        await in_thread(files.record.append, newest)
        return
    before = kept
    async for each in past_checkpoints.after(bus, 0 if kept is None else kept.sequence):
        if before is not None and not _continues(before, each):
            await tell(_broken(each.checkpoint.first_sequence, NOT_CONTINUED))
        await in_thread(files.record.append, each)
        before = each


def _continues(before: Kept, each: Kept) -> bool:
    one, other = before.checkpoint, each.checkpoint
    return other.previous == one.hash and other.first_sequence == one.last_sequence + 1


def _is_kept(record: Record, newest: Kept) -> bool:
    """Lines that reach further are looked at too: the log may have been cut."""
    since = newest.checkpoint.last_sequence
    beyond = itertools.takewhile(lambda kept: kept.checkpoint.last_sequence >= since, record.current())
    return any(kept.checkpoint.hash == newest.checkpoint.hash for kept in beyond)


def _first_other(record: Record, newest: Kept) -> int:
    """The first sequence of which the log's last checkpoint says something else."""
    said = _leaves(newest)
    known: dict[int, bytes] = {}
    for kept in record.current():
        if kept.checkpoint.last_sequence < newest.checkpoint.first_sequence:
            break
        if kept.checkpoint.first_sequence <= newest.checkpoint.last_sequence:
            known |= _leaves(kept)
    different = (sequence for sequence, leaf in said.items() if known.get(sequence, leaf) != leaf)
    return next(different, newest.checkpoint.first_sequence)


def _leaves(kept: Kept) -> dict[int, bytes]:
    try:
        return {sequence: listed.leaf for sequence, listed in chain.listed(kept.checkpoint).items()}
    except Invalid:
        return {}


def _is_signed(said: AuditCheckpoint) -> bool:
    # The library takes long to import, and is needed only where the log was cut.
    from infra.audit.signing import verify

    return verify(said.key, chain.statement(said), said.signature)


def _remember(files: Files, log: str, first: int) -> Memory:
    """From `first` on: the checkpoints that the log does not have any more, then the tail."""
    last = 0
    beyond: deque[Kept] = deque()
    for kept in files.record.current():
        if kept.checkpoint.log != log:
            break
        if kept.checkpoint.last_sequence < first:
            last = last or kept.checkpoint.last_sequence
            break
        if not _is_signed(kept.checkpoint):
            # The file has rotted, not the log.
            continue
        last = last or kept.checkpoint.last_sequence
        beyond.append(kept)
        # The oldest of them tell where it begins to be different.
        while beyond[0].checkpoint.first_sequence > kept.checkpoint.first_sequence + REMEMBERED:
            beyond.popleft()
    known = {
        sequence: Known(leaf, at=kept.time)
        for kept in reversed(beyond)
        for sequence, leaf in _leaves(kept).items()
        if sequence >= first
    }
    noted = files.tail.read()
    seen = [each for each in noted if each.sequence > last and each.sequence >= first]
    if len(seen) < len(noted):
        files.tail.restart(seen)
    known |= {each.sequence: Known(each.leaf, each.moment) for each in seen if each.sequence <= first + REMEMBERED}
    return Memory(known, max([last, *(each.sequence for each in seen)]))
