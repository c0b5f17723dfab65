"""Looks at a workspace wherever something may have changed, and has told what differs."""

import math
import time

from contracts.errors import SandboxInvalidState, Unavailable
from contracts.sight import Sight
from infra.manifest.ignore import FILE as RULES
from infra.watching.dirty import MOST, Dirty
from infra.watching.look import look, too_many
from infra.watching.threads import in_thread
from infra.watching.watches import Watch
from services.file_watcher import decide
from services.file_watcher.budget import Budget
from services.file_watcher.complaints import Trouble
from services.file_watcher.intake import Intake, Terms
from services.file_watcher.postponed import Postponed
from services.file_watcher.taken import Taken, is_momentary
from services.file_watcher.teller import FULL_PAUSE_S, Teller
from services.file_watcher.tools import Tools
from services.file_watcher.workspace import Workspace

OVERFLOWED = "the kernel dropped notices of changes; the whole workspace is looked at"
WATCHES_LIMIT = "fs.inotify.max_user_watches"
BREATH_S = 1.0
BREATHS = 10
SLOW_BREATHS = 100
"""Between looks at everything that nobody asked for passes a second, and ten times as long as the last one took: a
storm in one workspace must not cost all others, since they share the kernel's queue."""


class Survey:
    def __init__(self, tools: Tools, watch: Watch, workspace: Workspace, teller: Teller, budget: Budget) -> None:
        self._files = tools.files
        self._watch = watch
        self._workspace = workspace
        self._teller = teller
        self._intake = Intake(tools)
        self._budget = budget
        self._postponed = Postponed()
        self._held_until: float | None = None
        """More was told than there is budget for."""
        self._rescan_at: float | None = None
        self._not_whole_before = 0.0
        self._slow_look_at: float | None = None
        self._news_of_everything = False
        self._written: set[bytes] = set()
        """Still to be read, whatever their times say."""
        self._owes_overflow = False
        """A rescan waits because notices were dropped."""
        self._owes_doubt = False

    def due(self) -> float | None:
        """When to look even without news, by the monotonic clock."""
        if self._held_until is not None:
            return self._held_until
        times = (self._rescan_at, self._slow_look_at, self._postponed.due())
        return min((each for each in times if each is not None), default=None)

    async def take_baseline(self) -> None:
        """What is there now counts as told."""
        self._watch.take()
        began = time.monotonic()
        sight = await in_thread(self._look, Dirty(everything=True))
        await self._check_that_it_is_there()
        took_s = time.monotonic() - began
        taken = await self._intake.take(self._workspace.root, self._teller.told, sight.found)
        await in_thread(self._teller.take_over, taken)
        await self._after(sight, taken, whole=True)
        self._looked_at_everything(took_s)

    async def _check_that_it_is_there(self) -> None:
        """After a look: whoever removes a workspace moves it away before anything in it is deleted."""
        if not await in_thread(self._workspace.is_there):
            raise SandboxInvalidState("the workspace is gone")

    async def run(self, *, now: bool, whole: bool = False, doubt: bool = False) -> bool:
        """`now`: somebody waits for it, so nothing is postponed. `whole`: also what there was no notice of.
        `doubt`: also what shows nowhere but in the files themselves.

        False where another look would tell more: something could not be read at the moment, or changed meanwhile.
        Raises `Conflict` (others write events of these files), `SandboxInvalidState` (the workspace is being removed).
        """
        if not now and self._budget.is_spent():
            self._held_until = self._budget.when(0)
            await self._teller.complain(b"", self._too_much())
            return True
        self._held_until = None
        dirty = await in_thread(self._take_dirty, now=now, whole=whole)
        dirty.doubt |= doubt
        if not dirty:
            return True
        try:
            return await self._look_and_tell(dirty, now=now)
        except BaseException:
            self._watch.put_back(dirty)
            raise

    def _take_dirty(self, *, now: bool, whole: bool) -> Dirty:
        dirty = self._watch.take()
        if len(self._written) < MOST:
            self._written |= dirty.written
        elif dirty.written:
            dirty.everything = dirty.doubt = True
        if self._rescan_at is not None and (now or self._rescan_at <= time.monotonic()):
            self._rescan_at = None
            dirty.add_everything()
            dirty.overflow |= self._owes_overflow
            dirty.doubt |= self._owes_doubt
            self._owes_overflow = self._owes_doubt = False
        dirty.paths |= self._postponed.take(all_of_them=now)
        dirty.paths |= self._teller.told.linked(dirty.paths)
        is_slow_look = self._slow_look_at is not None and self._slow_look_at <= time.monotonic()
        if whole or is_slow_look:
            self._slow_look_at = None
            # The moves that were noticed stay, unlike where notices were dropped.
            dirty.everything = True
            dirty.doubt |= is_slow_look
        if dirty.everything and not now and time.monotonic() < self._not_whole_before:
            self._rescan_at = self._not_whole_before
            self._owes_overflow |= dirty.overflow
            self._owes_doubt |= dirty.doubt
            return Dirty()
        return dirty

    async def _look_and_tell(self, dirty: Dirty, *, now: bool) -> bool:
        if dirty.overflow:
            await self._teller.overflow(OVERFLOWED)
        is_hiding = await self._follow_rules(dirty)
        began = time.monotonic()
        sight = await in_thread(self._look, dirty)
        await self._check_that_it_is_there()
        scope = await in_thread(self._scope, sight)
        took_s = time.monotonic() - began
        early = set() if now else await in_thread(self._postponed.sort_out, sight.found)
        found = {path: seen for path, seen in sight.found.items() if path not in early} if early else sight.found
        terms = Terms(self._written, dirty.doubt, None if now else self._budget)
        taken = await self._intake.take(self._workspace.root, self._teller.told, found, terms)
        changing = bool(taken.vanished)
        self._look_again_at(taken.vanished)
        await in_thread(self._postponed.wait, taken.waits, self._budget)
        taken.vanished |= early | taken.waits.keys()
        told_bytes = await self._teller.tell(taken, scope, dirty.moves)
        if not now:
            self._budget.spend(taken.kept_bytes + told_bytes)
        self._written &= taken.vanished | taken.unread.keys() | sight.troubles.keys()
        await in_thread(self._forget, scope)
        if is_hiding:
            await self._teller.owe_manifest()
        momentary = await self._after(sight, taken, whole=dirty.everything)
        if dirty.everything:
            self._looked_at_everything(took_s)
        return not (changing or momentary)

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
        self._news_of_everything = True
        self._not_whole_before = now + max(BREATH_S, BREATHS * took_s)
        self._slow_look_at = now + max(self._files.look_s, SLOW_BREATHS * took_s)

    def has_looked_at_everything(self) -> bool:
        """Since this was asked last."""
        has, self._news_of_everything = self._news_of_everything, False
        return has

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
        if await in_thread(self._workspace.reload_rules):
            dirty.add_everything()
            return await self.hide()
        return False

    async def hide(self) -> bool:
        """Drops what the rules ignore from what counts as told: it is not deleted, so a manifest has to say it."""
        return await in_thread(self._hide)

    def _hide(self) -> bool:
        hidden = self._workspace.hidden(self._teller.told.tree)
        for path in hidden:
            self._teller.told.drop(path)
        return bool(hidden)

    async def _after(self, sight: Sight, taken: Taken, *, whole: bool) -> bool:
        """Complains, and sees to it that there will be another look where one is needed. True if that may help."""
        for path in taken.large:
            self._postponed.stored(path, taken.seen[path].size)
        errors = {**sight.troubles, **taken.unread}
        if self._workspace.rules_trouble is not None:
            errors[RULES] = self._workspace.rules_trouble
        self._teller.are_well(taken.sure - errors.keys())
        for path, error in errors.items():
            await self._teller.complain(path, error)
        await self._complain_of_all(sight, taken, whole=whole)
        momentary = any(map(is_momentary, errors.values()))
        if sight.uncovered or momentary:
            self._rescan_in(self._files.rescan_s)
        if taken.full is not None:
            self._rescan_in(max(FULL_PAUSE_S, self._files.rescan_s))
        return momentary

    def _too_much(self) -> Unavailable:
        rate = f"{self._files.store_bytes_per_s / 1024:g} KiB/s"
        return Unavailable(f"more is written than is kept: told with delay, at {rate} (files.store_bytes_per_s)")

    def _rescan_in(self, seconds: float) -> None:
        self._rescan_at = min(self._rescan_at or math.inf, time.monotonic() + seconds)

    async def _complain_of_all(self, sight: Sight, taken: Taken, *, whole: bool) -> None:
        """Of what is about no path in particular."""
        troubles: list[Trouble] = [sight.troubles[b""]] if b"" in sight.troubles else []
        if taken.full is not None:
            troubles.append(taken.full)
        if taken.waits:
            troubles.append(self._too_much())
        if sight.uncovered:
            every = f"{self._files.rescan_s:g}"
            troubles.append(Unavailable(f"no watches left ({WATCHES_LIMIT}): looked at every {every} s instead"))
        if whole:
            still = [] if self._budget.has_recovered() else [self._too_much()]
            self._teller.are_well({b""}, but=[*troubles, *still])
        for trouble in troubles:
            await self._teller.complain(b"", trouble)
