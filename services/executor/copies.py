"""Uploads and downloads: each is one call in the log, however many requests it takes."""

import asyncio
import logging
import time
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import msgspec
from msgspec import Struct

from contracts.errors import BY_CODE, ClocheError, Conflict, Failure, Invalid, SandboxCopyFailed
from contracts.files import FileRequest
from contracts.transfers import (
    Download,
    DownloadEnd,
    DownloadEntries,
    DownloadPieces,
    TransferDone,
    Upload,
    UploadEnd,
    UploadPieces,
)
from infra.files.downloading import begin_download, give_entries, give_pieces
from infra.files.paths import names_of
from infra.files.staging import Staging
from infra.files.transfers import Transfer, Transfers, encoded, no_transfer
from infra.files.trouble import translated
from infra.files.uploading import take_pieces, upload_state
from infra.ids import new_id
from services.executor.places import WorkspacePlace
from services.executor.tool_calls import ToolCalls

logger = logging.getLogger(__name__)

GIVEN_UP_AFTER_S = 3600.0
SWEEP_S = 600.0
MAX_MESSAGE = 2000

InThread = Callable[..., Awaitable[Any]]
Turn = Callable[[str], AbstractAsyncContextManager[Any]]


class Copies:
    """`walking` gives a turn at going through a tree, `changing` the right to change files of a sandbox."""

    def __init__(
        self,
        transfers: Transfers,
        staging: Staging,
        calls: ToolCalls,
        in_thread: InThread,
        *,
        walking: Turn,
        changing: Turn,
    ) -> None:
        self._transfers = transfers
        self._staging = staging
        self._calls = calls
        self._thread = in_thread
        self._walking = walking
        self._changing = changing
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def obey(self, sandbox: str, place: WorkspacePlace, request: FileRequest) -> Struct:
        transfer: str = getattr(request, "transfer", "")
        async with self._locks.setdefault(f"{sandbox}.{transfer}", asyncio.Lock()):
            known = await self._under_way(sandbox, transfer, place)
            if isinstance(request, Upload | Download):
                return await self._begin(sandbox, place, request, is_new=known is None)
            if isinstance(request, UploadEnd | DownloadEnd):
                return await self._end(sandbox, place, request, known)
            if known is None:
                raise no_transfer(transfer)
            async with self._turn(sandbox, request):
                answer: Struct = await self._in_thread(self._go_on, place, request, known)
            return answer

    async def _under_way(self, sandbox: str, transfer: str, place: WorkspacePlace) -> Transfer | None:
        known: Transfer | None = await self._in_thread(self._known, sandbox, transfer)
        if known is None or (known.life == _life(place) and not known.is_over):
            return known
        await self._finish(known, Conflict("the sandbox was made anew meanwhile").failure())
        return None

    def _turn(self, sandbox: str, request: FileRequest) -> AbstractAsyncContextManager[Any]:
        if isinstance(request, DownloadEntries):
            return self._walking(sandbox)
        return self._changing(sandbox) if isinstance(request, UploadPieces) else nullcontext()

    async def sweep(self) -> None:
        """For ever: ends what was begun and left."""
        while True:
            try:
                for left in await self._in_thread(self._transfers.abandoned, GIVEN_UP_AFTER_S):
                    await self._give_up(left)
            except ClocheError as error:
                logger.warning("transfers that were left are not ended now: %s", error.message)
            await asyncio.sleep(SWEEP_S)

    async def _give_up(self, left: Transfer) -> None:
        why = SandboxCopyFailed("nothing came of it any more, and it was given up")
        async with self._locks.setdefault(f"{left.sandbox}.{left.transfer}", asyncio.Lock()):
            await self._finish(left, why.failure())
        logger.info("%s: %s %s was given up", left.sandbox, left.kind, left.transfer)

    async def _begin(self, sandbox: str, place: WorkspacePlace, request: Upload | Download, *, is_new: bool) -> Struct:
        wanted = _wanted(sandbox, place, request)
        if is_new:
            await self._calls.invoked(sandbox, wanted.call, wanted.kind, request)
        try:
            names = names_of(request.path, request.path_bytes, place.inside)
            wanted = msgspec.structs.replace(wanted, path=encoded(names))
            begun: Transfer = await self._in_thread(self._transfers.begin, wanted)
            answer: Struct = await self._in_thread(self._first, place, begun)
        except ClocheError as error:
            if is_new:
                await self._returned(wanted, error.failure())
                await self._in_thread(self._transfers.drop, wanted)
            raise
        return answer

    def _known(self, sandbox: str, transfer: str) -> Transfer | None:
        try:
            return self._transfers.load(sandbox, transfer)
        except Invalid:
            return None

    def _first(self, place: WorkspacePlace, transfer: Transfer) -> Struct:
        if transfer.kind == "upload":
            return upload_state(transfer)
        with translated(place.inside, SandboxCopyFailed), place.open(self._staging.directory) as workspace:
            return begin_download(workspace, transfer)

    def _go_on(self, place: WorkspacePlace, request: FileRequest, transfer: Transfer) -> Struct:
        with translated(place.inside, SandboxCopyFailed), place.open(self._staging.directory) as workspace:
            match request:
                case UploadPieces() if transfer.kind == "upload":
                    return upload_state(take_pieces(workspace, self._transfers, request, transfer, place.disk_bytes))
                case DownloadEntries() if transfer.kind == "download":
                    return give_entries(workspace, request, transfer)
                case DownloadPieces() if transfer.kind == "download":
                    given = give_pieces(workspace, request, transfer)
                    self._transfers.save(given.transfer)
                    return given.page
        raise Invalid(f"transfer {transfer.transfer!r} is another kind: {transfer.kind}")

    async def _end(
        self, sandbox: str, place: WorkspacePlace, request: UploadEnd | DownloadEnd, transfer: Transfer | None
    ) -> TransferDone:
        """Asked for again, because the answer was lost, it is answered again."""
        if transfer is None:
            transfer = await self._in_thread(self._transfers.ended, sandbox, request.transfer)
        else:
            if request.failure is None and transfer.part is not None:
                raise Invalid("a file of this upload is not whole")
            await self._finish(transfer, request.failure and recorded(request.failure))
        path = "/".join([place.inside, *(name.decode(errors="backslashreplace") for name in transfer.names)])
        return TransferDone(path=path, files=transfer.files, bytes=transfer.bytes)

    async def _finish(self, transfer: Transfer, failure: Failure | None) -> None:
        """After a crash in the middle it ends as it was to end then, whatever `failure` is now."""
        if not transfer.is_over:
            transfer = msgspec.structs.replace(transfer, is_over=True, failure=failure)
            await self._in_thread(self._transfers.save, transfer)
        await self._returned(transfer, transfer.failure)
        await self._in_thread(self._transfers.end, transfer)

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Raises a situation for every `OSError`: a request is always answered, and its call ended."""
        with translated("the transfer", SandboxCopyFailed):
            return await self._thread(work, *arguments)

    async def _returned(self, transfer: Transfer, failure: Failure | None) -> None:
        await self._calls.returned(
            transfer.sandbox,
            transfer.call,
            transfer.kind,
            begun_ns=transfer.begun_ns,
            asked_by=transfer.asked_by,
            summary={"files": transfer.files, "bytes": transfer.bytes},
            failure=failure,
        )


def recorded(failure: Failure) -> Failure:
    """What an asker says of its failure, as the log keeps it: in bounds, and one of our codes."""
    code = failure.code if failure.code in BY_CODE else SandboxCopyFailed.code
    return Failure(code=code, message=failure.message[:MAX_MESSAGE], retryable=BY_CODE[code].retryable)


def _life(place: WorkspacePlace) -> str:
    return ".".join(map(str, place.life))


def _wanted(sandbox: str, place: WorkspacePlace, request: Upload | Download) -> Transfer:
    return Transfer(
        kind="upload" if isinstance(request, Upload) else "download",
        sandbox=sandbox,
        transfer=request.transfer,
        call=new_id("t"),
        asked_by=request.asked_by,
        path="",
        begun_ns=time.time_ns(),
        life=_life(place),
    )
