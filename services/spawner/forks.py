"""Workspaces that begin as one was at some sequence of the log: another sandbox's, or the same one's."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from contracts import subjects
from contracts.errors import Invalid, SandboxCreationFailed, SandboxNotFound, Unavailable
from contracts.events.file import EntryKind
from contracts.lacking import Lack
from contracts.spec import ForkOf, SandboxSpec, merge
from contracts.spelling import spell
from infra.access import open_as
from infra.bus import reader
from infra.bus.connection import Bus
from infra.lineage import lifecycle_at
from infra.log.choosing import view_of
from infra.log.lacking import lacking_of
from infra.log.live import LiveView
from infra.manifest.history import base_at, tree_at
from infra.manifest.restore import Restored, restore
from infra.sandbox.forking import Fill
from infra.sandbox.trees import remove_tree
from infra.settings import Settings

logger = logging.getLogger(__name__)

ATTEMPTS = 5
PATHS_TOLD = 20
GAPS_TOLD = 20


class Forks:
    def __init__(self, bus: Bus, settings: Settings) -> None:
        self._bus = bus
        self._settings = settings
        self._notes: dict[str, tuple[str, ...]] = {}

    async def check(self, spec: SandboxSpec) -> None:
        """Raises `Invalid` for a fork of what is not on record, `Unavailable`."""
        source = spec.workspace.source
        if not isinstance(source, ForkOf):
            return
        await self.check_past(source.sandbox, source.sequence)

    async def spec(self, sandbox: str, origin: ForkOf, given: bytes | msgspec.Raw) -> SandboxSpec:
        """As the origin's was then, its network included, with what is given laid over it.

        Raises `SandboxNotFound` where there was no such sandbox then, `Invalid`, `Unavailable`.
        """
        if sandbox == origin.sandbox:
            raise Invalid(f"a fork of {sandbox!r} needs an id of its own")
        state = await lifecycle_at(self._bus, origin.sandbox, origin.sequence)
        if state is None:
            raise SandboxNotFound(f"there was no sandbox {origin.sandbox!r} at sequence {origin.sequence}")
        workspace = replace(state.spec.workspace, source=origin)
        spec = merge(replace(state.spec, isolation=state.isolation, workspace=workspace), given)
        if spec.workspace.source != origin:
            raise Invalid("the files of a fork are those of its origin: leave workspace.source out")
        return spec

    async def check_past(self, sandbox: str, sequence: int) -> None:
        """Raises `Invalid` where nothing of its files is on record then, `Unavailable`."""
        view = await view_of(self._bus, sandbox)
        if sequence > (last := (await view.bounds()).last):
            raise Invalid(f"sequence {sequence}: the log ends at {last}")
        if await base_at(view, sandbox, sequence) is None:
            ready = await view.first(subjects.event(sandbox, "file.ready"), start=sequence)
            later = "" if ready is None else f": they are from sequence {ready.seq} on"
            raise Invalid(_nothing(ForkOf(sandbox=sandbox, sequence=sequence)) + later)

    async def newest(self, sandbox: str) -> int | None:
        """A sequence that has the last that is known of its files; None where nothing is. Raises `Unavailable`."""
        last = (await reader.bounds(self._bus)).last
        return last if await base_at(LiveView(self._bus), sandbox, last) is not None else None

    async def not_kept(self, sandbox: str, sequence: int) -> list[str]:
        """Paths of its files at a sequence whose contents nobody has but the workspace itself. Raises `Unavailable`."""
        found = await tree_at(LiveView(self._bus), sandbox, sequence)
        tree = {} if found is None else found.tree
        lacking = [
            each.path for each in tree.values() if each.kind == EntryKind.FILE and each.size and each.blob is None
        ]
        return sorted(lacking)

    def fill(self, sandbox: str, spec: SandboxSpec) -> Fill | None:
        """What restores the files of a fork; None for a sandbox that is none."""
        source = spec.workspace.source
        return self._fill(sandbox, source) if isinstance(source, ForkOf) else None

    def past(self, sandbox: str, sequence: int) -> Fill:
        """What restores a sandbox's own files."""
        return self._fill(sandbox, ForkOf(sandbox=sandbox, sequence=sequence))

    def _fill(self, sandbox: str, source: ForkOf) -> Fill:
        def fill(directory: Path, owner: int | None, most_bytes: int) -> None:
            # A loop of its own: on ours, the threads that restore could all be taken by those that wait for it.
            self._notes[sandbox] = asyncio.run(self._restore(source, directory, owner, most_bytes))

        return fill

    def note(self, sandbox: str, words: str) -> None:
        self._notes[sandbox] = (*self._notes.get(sandbox, ()), words)

    def take_notes(self, sandbox: str) -> tuple[str, ...]:
        """What is worth telling about the last `fill`."""
        return self._notes.pop(sandbox, ())

    async def _restore(self, source: ForkOf, directory: Path, owner: int | None, most_bytes: int) -> tuple[str, ...]:
        """Returns what is worth telling about it."""
        async with open_as(self._settings, "spawner") as bus:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return await _restore(bus, source, directory, owner, most_bytes)
                except Unavailable as error:
                    if attempt == ATTEMPTS:
                        raise
                    logger.warning("the files of %s are restored again: %s", source.sandbox, error.message)
                await asyncio.to_thread(_empty, directory)
                await bus.wait_connected()
        raise AssertionError


async def _restore(bus: Bus, source: ForkOf, directory: Path, owner: int | None, most_bytes: int) -> tuple[str, ...]:
    view = await view_of(bus, source.sandbox)
    found = await tree_at(view, source.sandbox, source.sequence)
    if found is None:
        raise Invalid(_nothing(source))
    size = sum(entry.size for entry in found.tree.values() if entry.kind == EntryKind.FILE and entry.blob)
    if size > most_bytes:
        raise SandboxCreationFailed(f"workspace: {size} bytes are more than resources.disk_mb")
    restored = await restore(found.tree, view.blobs, directory, owner, owner)
    return _notes(source, restored, await lacking_of(view, source.sandbox, source.sequence))


def _nothing(source: ForkOf) -> str:
    return f"nothing of the files of {source.sandbox!r} is on record at sequence {source.sequence}"


def _notes(source: ForkOf, restored: Restored, lacking: Sequence[Lack]) -> tuple[str, ...]:
    where = f"{source.sandbox} at sequence {source.sequence}"
    notes = [f"workspace: {restored.entries} entries, {restored.bytes} bytes of {where}"]
    notes += [f"not restored: {spell(path).text}: {reason}" for path, reason in restored.missing[:PATHS_TOLD]]
    if len(restored.missing) > PATHS_TOLD:
        notes.append(f"not restored: {len(restored.missing) - PATHS_TOLD} more")
    notes += [
        f"the log lacks sequence {lack.first_sequence} to {lack.last_sequence}: what changed then may be missing here"
        for lack in lacking[:GAPS_TOLD]
    ]
    if len(lacking) > GAPS_TOLD:
        notes.append(f"the log lacks more in {len(lacking) - GAPS_TOLD} places: see `cloche audit`")
    return tuple(notes)


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(entry)
        else:
            entry.unlink()
