"""Follows the files of one workspace."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from contracts.errors import ClocheError, Conflict, Invalid, SandboxInvalidState
from contracts.manifest import Tree, blobs_of
from contracts.recovery import is_restoring
from contracts.state import SandboxState, Status
from contracts.watch import Flush, Flushed
from infra.blobs.errors import BlobDamaged, BlobMissing, StoreFull
from infra.bus import reader
from infra.bus.publisher import FIRST_PAUSE_S, LONGEST_PAUSE_S
from infra.log.live import LiveView
from infra.manifest.history import tree_at
from infra.watching.dirty import Dirty
from infra.watching.threads import in_thread
from infra.watching.watches import Watch
from services.file_watcher.budget import Budget
from services.file_watcher.record import Record
from services.file_watcher.survey import Survey
from services.file_watcher.teller import Teller
from services.file_watcher.told import Told
from services.file_watcher.tools import Tools
from services.file_watcher.window import Window
from services.file_watcher.workspace import Workspace

logger = logging.getLogger(__name__)

SECOND_TRIES_S = (0.05, 0.2, 0.8)


class _Asked(NamedTuple):
    request: Flush
    answer: asyncio.Future[Flushed]


class Follower:
    """`follow` may be called again after it has failed; who asks meanwhile is answered then, or by `refuse`."""

    def __init__(self, tools: Tools, state: SandboxState, locate: Callable[[], Awaitable[Path]]) -> None:
        """`locate` tells where on this node the workspace is."""
        self._tools = tools
        self._state = state
        self._locate = locate
        self._window = Window(tools.files.quiet_ms / 1000, tools.files.longest_ms / 1000)
        self._budget = Budget(tools.files.store_burst_bytes, tools.files.store_bytes_per_s)
        self._asked: list[_Asked] = []
        self.last_words: Flushed | None = None
        """The answer to a final flush: then it is over."""

    async def flush(self, request: Flush) -> Flushed:
        """Everything that is on disk now is in the log when this returns. Raises what `refuse` is given."""
        if self.last_words is not None:
            return self.last_words
        asked = _Asked(request, asyncio.get_running_loop().create_future())
        self._asked.append(asked)
        self._window.hurry()
        return await asked.answer

    def refuse(self, error: ClocheError) -> None:
        asked, self._asked = self._asked, []
        for each in asked:
            if not each.answer.done():
                each.answer.set_exception(error)

    def hurry(self) -> None:
        """Tell what there is without waiting for more."""
        self._window.hurry()

    async def follow(self) -> None:
        """Until it is cancelled, or a final flush was answered.

        Raises `SandboxNotFound`, `SandboxInvalidState`, `OSError` where the workspace is not there, or no longer.
        """
        await self._check_owner()
        with await in_thread(Workspace, await self._locate()) as workspace:
            watch = self._tools.watches.attach(self._window.news)
            try:
                pause = FIRST_PAUSE_S
                while self.last_words is None:
                    try:
                        await self._follow(workspace, watch)
                    except Conflict as error:
                        logger.warning("%s: reading the log again: %s", self._state.sandbox, error.message)
                        await asyncio.sleep(pause)
                        pause = min(pause * 2, LONGEST_PAUSE_S)
                        await self._check_owner()
            finally:
                await in_thread(watch.detach)

    async def _check_owner(self) -> None:
        """The rival may be another node that has recovered the sandbox: then our files are not its files any more.

        Nor are they while the workspace is made anew, or being removed: nobody deleted what is missing then.
        """
        state = await self._tools.journal.lifecycle(self._state.sandbox)
        if state is not None and state.node != self._tools.journal.node:
            raise SandboxInvalidState(f"sandbox {self._state.sandbox!r} is another node's now")
        if state is not None and (state.status == Status.REMOVED or is_restoring(state)):
            raise SandboxInvalidState(f"sandbox {self._state.sandbox!r} has no workspace at the moment")

    async def _follow(self, workspace: Workspace, watch: Watch) -> None:
        watch.put_back(_everything())
        record = Record(self._tools.bus, self._tools.journal, self._state.sandbox)
        known = await self._known(record)
        told = await in_thread(self._told, known or {}, workspace)
        teller = Teller(record, self._tools, self._state.workspace, told)
        survey = Survey(self._tools, watch, workspace, teller, self._budget)
        try:
            await self._begin(survey, teller, is_known=known is not None)
            while self.last_words is None:
                await self._window.passes(lambda: watch.last_notice, _earlier(survey.due(), teller.due()))
                await self._take_turn(survey, teller)
                if survey.has_looked_at_everything():
                    await in_thread(self._remember, workspace, told)
        finally:
            await in_thread(self._remember, workspace, told)

    def _told(self, tree: Tree, workspace: Workspace) -> Told:
        told = Told(tree)
        self._tools.remembered.recall(self._state.sandbox, workspace.root, told)
        return told

    def _remember(self, workspace: Workspace, told: Told) -> None:
        try:
            if self.last_words is not None:
                self._tools.remembered.forget(self._state.sandbox)
            elif told.has_learned:
                self._tools.remembered.keep(self._state.sandbox, workspace.root, told)
                told.has_learned = False
        except OSError as error:
            logger.warning("%s: all its files are read again after a restart: %s", self._state.sandbox, error)

    async def _known(self, record: Record) -> Tree | None:
        """What the log has; None where it has nothing that can be read."""
        if not await record.find_last():
            return None
        try:
            found = await tree_at(LiveView(self._tools.bus), self._state.sandbox, record.last)
        except (BlobMissing, BlobDamaged, Invalid) as error:
            logger.error("%s: its files' past cannot be read: %s", self._state.sandbox, error.message)  # noqa: TRY400
            return None
        if found is None:
            return None
        await self._doubt_what_is_lost(found.tree)
        return found.tree

    async def _doubt_what_is_lost(self, tree: Tree) -> None:
        """What the store no longer has is read again, and told as if its content were new."""
        lost = await self._tools.blobs.missing(await in_thread(blobs_of, tree))
        if lost:
            logger.error("%s: %d contents of its files are lost; read again", self._state.sandbox, len(lost))
            await in_thread(_doubt, tree, lost)

    async def _begin(self, survey: Survey, teller: Teller, *, is_known: bool) -> None:
        """Makes the log agree with what is there, and says so."""
        if is_known:
            await survey.hide()
            await survey.run(now=True)
            await teller.ready()
        elif teller.record.last or self._state.spec.workspace.source is not None or await self._is_forgotten():
            await survey.take_baseline()
            await teller.ready()
        else:
            # From nothing, so that what the first command wrote before we came is told as created.
            await teller.ready()
            await survey.run(now=True)

    async def _is_forgotten(self) -> bool:
        """The log has lost the beginning of the sandbox, so nothing in it need mean that there was nothing."""
        return (await reader.bounds(self._tools.bus)).first > self._state.first_sequence

    async def _take_turn(self, survey: Survey, teller: Teller) -> None:
        asked = list(self._asked)
        if asked:
            await in_thread(self._tools.watches.drain)
        await self._look(survey, asked)
        await teller.refresh()
        for each in asked:
            await self._answer(each, teller)

    async def _answer(self, asked: _Asked, teller: Teller) -> None:
        try:
            flushed = await _flushed(teller, asked.request)
        except StoreFull as error:
            self._asked.remove(asked)
            if not asked.answer.done():
                asked.answer.set_exception(error)
            return
        if asked.request.final:
            self.last_words = flushed
        self._asked.remove(asked)
        if not asked.answer.done():
            asked.answer.set_result(flushed)

    async def _look(self, survey: Survey, asked: list[_Asked]) -> None:
        """Before a manifest or an end, what cannot be read at the moment gets further tries."""
        is_last = any(each.request.manifest or each.request.final for each in asked)
        doubt = any(each.request.manifest for each in asked)
        settled = await survey.run(now=bool(asked), whole=is_last, doubt=doubt)
        for pause in SECOND_TRIES_S if is_last else ():
            if settled:
                return
            await asyncio.sleep(pause)
            settled = await survey.run(now=True)


def _everything() -> Dirty:
    """What was written while nobody looked has left no notice."""
    dirty = Dirty(everything=True)
    dirty.doubt = True
    return dirty


def _doubt(tree: Tree, lost: set[str]) -> None:
    for path, entry in tree.items():
        if entry.blob in lost:
            tree[path] = msgspec.structs.replace(entry, sha256=None, blob=None)


def _earlier(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)


async def _flushed(teller: Teller, request: Flush) -> Flushed:
    stored = await teller.manifest() if request.manifest else None
    header = await in_thread(teller.header)
    return Flushed(
        sequence=teller.record.last,
        manifest=stored.sha256 if stored else None,
        files=header.entries,
        bytes=header.bytes,
    )
