"""Follows the files of one workspace."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from contracts.errors import ClocheError, Conflict, Invalid, SandboxInvalidState
from contracts.manifest import Tree
from contracts.state import SandboxState
from contracts.watch import Flush, Flushed
from infra.blobs.errors import BlobDamaged, BlobMissing
from infra.manifest.history import tree_at
from infra.watching.dirty import Dirty
from infra.watching.watches import Watch
from services.file_watcher.record import Record
from services.file_watcher.survey import Survey
from services.file_watcher.teller import Teller
from services.file_watcher.told import Told
from services.file_watcher.tools import Tools
from services.file_watcher.window import Window
from services.file_watcher.workspace import Workspace

logger = logging.getLogger(__name__)


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
        with await asyncio.to_thread(Workspace, await self._locate()) as workspace:
            watch = self._tools.watches.attach(self._window.news)
            try:
                while self.last_words is None:
                    try:
                        await self._follow(workspace, watch)
                    except Conflict as error:
                        logger.warning("%s: reading the log again: %s", self._state.sandbox, error.message)
                        await self._check_owner()
            finally:
                await asyncio.to_thread(watch.detach)

    async def _check_owner(self) -> None:
        """The rival may be another node that has recovered the sandbox: then our files are not its files any more."""
        state = await self._tools.journal.lifecycle(self._state.sandbox)
        if state is not None and state.node != self._tools.journal.node:
            raise SandboxInvalidState(f"sandbox {self._state.sandbox!r} is another node's now")

    async def _follow(self, workspace: Workspace, watch: Watch) -> None:
        watch.put_back(Dirty(everything=True))
        record = Record(self._tools.bus, self._tools.journal, self._state.sandbox)
        known = await self._known(record)
        teller = Teller(record, self._tools, self._state.workspace, await asyncio.to_thread(Told, known or {}))
        survey = Survey(self._tools, watch, workspace, teller)
        await self._begin(survey, teller, is_known=known is not None)
        while self.last_words is None:
            await self._window.passes(lambda: watch.last_notice, _earlier(survey.due(), teller.due()))
            await self._take_turn(survey, teller)

    async def _known(self, record: Record) -> Tree | None:
        """What the log has; None where it has nothing that can be read."""
        if not await record.find_last():
            return None
        try:
            found = await tree_at(self._tools.bus, self._tools.blobs, self._state.sandbox, record.last)
        except (BlobMissing, BlobDamaged, Invalid) as error:
            logger.error("%s: its files' past cannot be read: %s", self._state.sandbox, error.message)  # noqa: TRY400
            return None
        if found is None:
            return None
        await self._doubt_what_is_lost(found.tree)
        return found.tree

    async def _doubt_what_is_lost(self, tree: Tree) -> None:
        """What the store no longer has is read again, and told as if its content were new."""
        lost = await self._tools.blobs.missing(entry.blob for entry in tree.values() if entry.blob)
        if lost:
            logger.error("%s: %d contents of its files are lost; read again", self._state.sandbox, len(lost))
        for path, entry in tree.items():
            if entry.blob in lost:
                tree[path] = msgspec.structs.replace(entry, sha256=None, blob=None)

    async def _begin(self, survey: Survey, teller: Teller, *, is_known: bool) -> None:
        """Makes the log agree with what is there, and says so."""
        if is_known:
            await survey.hide()
            await survey.run(now=True)
            await teller.ready()
        elif teller.record.last or self._state.spec.workspace.source is not None:
            await survey.take_baseline()
            await teller.ready()
        else:
            # From nothing, so that what the first command wrote before we came is told as created.
            await teller.ready()
            await survey.run(now=True)

    async def _take_turn(self, survey: Survey, teller: Teller) -> None:
        asked = list(self._asked)
        if asked:
            await asyncio.to_thread(self._tools.watches.drain)
        await survey.run(now=bool(asked), whole=any(each.request.manifest or each.request.final for each in asked))
        await teller.refresh()
        for each in asked:
            flushed = await _flushed(teller, each.request)
            if each.request.final:
                self.last_words = flushed
            self._asked.remove(each)
            if not each.answer.done():
                each.answer.set_result(flushed)


def _earlier(one: float | None, other: float) -> float:
    return other if one is None else min(one, other)


async def _flushed(teller: Teller, request: Flush) -> Flushed:
    stored = await teller.manifest() if request.manifest else None
    header = await asyncio.to_thread(teller.header)
    return Flushed(
        sequence=teller.record.last,
        manifest=stored.sha256 if stored else None,
        files=header.entries,
        bytes=header.bytes,
    )
