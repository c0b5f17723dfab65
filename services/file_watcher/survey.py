"""Looks at a workspace wherever something may have changed, and has told what differs."""

import asyncio
import math
import time

from contracts.errors import SandboxInvalidState, Unavailable
from contracts.sight import Sight
from infra.manifest.ignore import FILE as RULES
from infra.watching.dirty import MOST, Dirty
from infra.watching.look import look, too_many
from infra.watching.watches import Watch
from services.file_watcher import decide
from services.file_watcher.intake import Intake, Taken, is_momentary
from services.file_watcher.postponed import Postponed
from services.file_watcher.teller import Teller
from services.file_watcher.tools import Tools
from services.file_watcher.workspace import Workspace

OVERFLOWED = "the kernel dropped notices of changes; the whole workspace is looked at"
NO_WATCHES = "the kernel has no watches left for its directories (fs.inotify.max_user_watches)"
BREATH_S = 1.0
BREATHS = 10
SLOW_BREATHS = 100
"""Between looks at everything that nobody asked for passes a second, and ten times as long as the last one took: a
storm in one workspace must not cost all others, since they share the kernel's queue."""


class Survey:
    def __init__(self, tools: Tools, watch: Watch, workspace: Workspace, teller: Teller) -> None:
        self._files = tools.files
        self._watch = watch
        self._workspace = workspace
        self._teller = teller
        self._intake = Intake(tools)
        self._postponed = Postponed()
        self._rescan_at: float | None = None
        self._not_whole_before = 0.0
        self._slow_look_at: float | None = None
        self._written: set[bytes] = set()
        """Still to be read, whatever their times say."""
        self._owes_overflow = False
        """A rescan waits because notices were dropped."""

    def due(self) -> float | None:
        """When to look even without news, by the monotonic clock."""
        times = (self._rescan_at, self._slow_look_at, self._postponed.due())
        return min((each for each in times if each is not None), default=None)

    async def take_baseline(self) -> None:
        """What is there now counts as told."""
        self._watch.take()
        began = time.monotonic()
        sight = await asyncio.to_thread(self._look, Dirty(everything=True))
        took_s = time.monotonic() - began
        taken = await self._intake.take(self._workspace.root, self._teller.told, sight.found)
        await asyncio.to_thread(self._teller.take_over, taken)
        await self._after(sight, taken)
        self._looked_at_everything(took_s)

    async def run(self, *, now: bool, whole: bool = False) -> None:
        """`now`: somebody waits for it, so nothing is postponed. `whole`: also what there was no notice of.

        Raises `Conflict` (others write events of these files), `SandboxInvalidState` (the workspace is being removed).
        """
        dirty = self._take_dirty(now=now, whole=whole)
        if not dirty:
            return
        try:
            await self._look_and_tell(dirty, now=now)
        except BaseException:
            self._watch.put_back(dirty)
            raise

    def _take_dirty(self, *, now: bool, whole: bool) -> Dirty:
        dirty = self._watch.take()
        if len(self._written) < MOST:
            self._written |= dirty.written
        if self._rescan_at is not None and (now or self._rescan_at <= time.monotonic()):
            self._rescan_at = None
            dirty.add_everything()
            dirty.overflow |= self._owes_overflow
            self._owes_overflow = False
        dirty.paths |= self._postponed.take(all_of_them=now)
        dirty.paths |= self._teller.told.linked(dirty.paths)
        if whole or (self._slow_look_at is not None and self._slow_look_at <= time.monotonic()):
            self._slow_look_at = None
            # The moves that were noticed stay, unlike where notices were dropped.
            dirty.everything = True
        if dirty.everything and not now and time.monotonic() < self._not_whole_before:
            self._rescan_at = self._not_whole_before
            self._owes_overflow |= dirty.overflow
            return Dirty()
        return dirty

    async def _look_and_tell(self, dirty: Dirty, *, now: bool) -> None:
        if dirty.overflow:
            await self._teller.overflow(OVERFLOWED)
        is_hiding = await self._follow_rules(dirty)
        began = time.monotonic()
        sight = await asyncio.to_thread(self._look, dirty)
        if not await asyncio.to_thread(self._workspace.is_there):
            raise SandboxInvalidState("the workspace is gone")
        scope = await asyncio.to_thread(self._scope, sight)
        took_s = time.monotonic() - began
        early = set() if now else await asyncio.to_thread(self._postponed.sort_out, sight.found)
        found = {path: seen for path, seen in sight.found.items() if path not in early} if early else sight.found
        taken = await self._intake.take(self._workspace.root, self._teller.told, found, self._written)
        self._look_again_at(taken.vanished)
        taken.vanished |= early
        await self._teller.tell(taken, scope, dirty.moves)
        self._written &= taken.vanished | taken.unread.keys() | sight.troubles.keys()
        await asyncio.to_thread(self._forget, scope)
        if is_hiding:
            await self._teller.manifest()
        await self._after(sight, taken)
        if dirty.everything:
            self._looked_at_everything(took_s)

    def _scope(self, sight: Sight) -> set[bytes]:
        """What is told that the sight is about; of what is new in it only as much stays as may be followed."""
        told = self._teller.told
        scope = decide.affected(told, sight)
        new = sight.found.keys() - told.tree.keys()
        left = len(told.tree) - len(scope - sight.found.keys())
        room = max(0, self._files.max_entries - left)
        if len(new) > room:
            # In their order: a directory comes before all that is in it.
            for path in sorted(new)[room:]:
                del sight.found[path]
            sight.troubles[b""] = too_many(self._files.max_entries)
        return scope

    def _forget(self, scope: set[bytes]) -> None:
        for path in scope - self._teller.told.tree.keys():
            self._watch.forget(path)

    def _looked_at_everything(self, took_s: float) -> None:
        """`took_s` without what is due to changes alone, reading and telling: after much work the next is no later."""
        now = time.monotonic()
        self._not_whole_before = now + max(BREATH_S, BREATHS * took_s)
        self._slow_look_at = now + max(self._files.look_s, SLOW_BREATHS * took_s)

    def _look(self, dirty: Dirty) -> Sight:
        rules = self._workspace.rules
        return look(
            self._workspace.root,
            dirty,
            ignored=rules.ignores,
            cover=self._watch.cover,
            covers=self._watch.covers,
            most=self._files.max_entries,
        )

    def _look_again_at(self, paths: set[bytes]) -> None:
        if paths:
            again = Dirty()
            for path in paths:
                again.add(path, tree=False)
            self._watch.put_back(again)

    async def _follow_rules(self, dirty: Dirty) -> bool:
        """Where they have changed everything is looked at. True where that hides something that was told."""
        if not dirty.everything and RULES not in dirty.paths:
            return False
        if await asyncio.to_thread(self._workspace.reload_rules):
            dirty.add_everything()
            return await self.hide()
        return False

    async def hide(self) -> bool:
        """Drops what the rules ignore from what counts as told: it is not deleted, so a manifest has to say it."""
        hidden = await asyncio.to_thread(self._workspace.hidden, self._teller.told.tree)
        for path in hidden:
            self._teller.told.drop(path)
        return bool(hidden)

    async def _after(self, sight: Sight, taken: Taken) -> None:
        for path in taken.large:
            self._postponed.stored(path, taken.seen[path].size)
        self._teller.are_well(taken.sure)
        errors = {**sight.troubles, **taken.unread}
        for path, error in errors.items():
            await self._teller.complain(path, error)
        if sight.uncovered or any(map(is_momentary, errors.values())):
            self._rescan_at = min(self._rescan_at or math.inf, time.monotonic() + self._files.rescan_s)
        if sight.uncovered:
            reason = (
                f"no watches left (fs.inotify.max_user_watches): looked at every {self._files.rescan_s:g} s instead"
            )
            await self._teller.complain(b"", Unavailable(reason))
