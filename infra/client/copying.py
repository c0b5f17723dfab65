"""Files and trees between this machine and a sandbox."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from contracts import transfers
from contracts.errors import (
    ClocheError,
    Failure,
    Invalid,
    SandboxCopyFailed,
    SandboxFileNotFound,
    Unavailable,
    from_failure,
)
from contracts.events.file import EntryKind
from contracts.files import FileEntry, FileRequest
from contracts.spelling import unspell
from contracts.transfers import (
    MAX_PIECES,
    Download,
    DownloadBegun,
    DownloadEnd,
    DownloadEntries,
    DownloadPiece,
    DownloadPieces,
    EntryPage,
    PiecePage,
    TransferDone,
    Upload,
    UploadEnd,
    UploadPieces,
    UploadState,
    WantedPiece,
)
from infra.client.landing import Landing
from infra.client.local_tree import bundles
from infra.files.downloading import CHANGED
from infra.ids import new_id

PATIENCE_S = 60.0
"""For a service that is being started again."""
ANSWER_S = 5.0
"""A request that was in a service's hands when it was killed is never answered; asked again it does no harm."""
WALK_ANSWER_S = 30.0
"""Going through a tree may have to wait for its turn."""
TRIES = 5
"""For a file that is changed while it is read."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0

Request = Callable[[str, FileRequest, type[Any], float], Awaitable[Any]]


async def upload(request: Request, local: Path, path: str, transfer: str | None, asked_by: str | None) -> TransferDone:
    asking = _Asking(request)
    transfer = transfer or new_id("up")
    begun: UploadState = await asking("upload", Upload(path=path, transfer=transfer, asked_by=asked_by))
    try:
        number = 0
        packing = bundles(local)
        while (pieces := await asyncio.to_thread(next, packing, None)) is not None:
            if number >= begun.number:
                await asking("upload_pieces", UploadPieces(transfer=transfer, number=number, pieces=pieces))
            number += 1
        done: TransferDone = await asking("upload_end", UploadEnd(transfer=transfer))
    except (ClocheError, OSError) as error:
        failed = error if isinstance(error, ClocheError) else SandboxCopyFailed(f"{local}: {error.strerror}")
        with suppress(ClocheError):
            await asking("upload_end", UploadEnd(transfer=transfer, failure=_without_paths(failed)))
        raise failed from error
    return done


async def download(request: Request, path: str, local: Path, asked_by: str | None) -> TransferDone:
    asking = _Asking(request)
    transfer = new_id("down")
    begun: DownloadBegun = await asking("download", Download(path=path, transfer=transfer, asked_by=asked_by))
    try:
        await _Download(asking, transfer, begun.entry, local).run()
        done: TransferDone = await asking("download_end", DownloadEnd(transfer=transfer))
    except (ClocheError, OSError) as error:
        failed = error if isinstance(error, ClocheError) else SandboxCopyFailed(f"{local}: {error.strerror}")
        with suppress(ClocheError):
            await asking("download_end", DownloadEnd(transfer=transfer, failure=_without_paths(failed)))
        raise failed from error
    return done


def _without_paths(error: ClocheError) -> Failure:
    """For the sandbox's log, which is no place for the names of this machine's files."""
    return Failure(code=error.code, message="the copy was given up by whoever asked for it", retryable=error.retryable)


class _Asking:
    """Every request of a transfer may be sent again."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def __call__(self, verb: str, question: FileRequest) -> Any:
        loop = asyncio.get_running_loop()
        patience_s = WALK_ANSWER_S if verb == "download_entries" else ANSWER_S
        deadline, pause = loop.time() + PATIENCE_S, FIRST_PAUSE_S
        while True:
            try:
                return await self._request(verb, question, transfers.ANSWERS[verb], patience_s)
            except Unavailable:
                if loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)


class _Download:
    def __init__(self, asking: _Asking, transfer: str, top: FileEntry, local: Path) -> None:
        self._asking = asking
        self._transfer = transfer
        self._top = top
        self._local = local

    async def run(self) -> None:
        with await asyncio.to_thread(Landing.open, self._local) as landing:
            if self._top.kind == EntryKind.FILE:
                await self._files(landing, [self._top])
            elif self._top.kind == EntryKind.DIRECTORY:
                await self._tree(landing)
            else:
                raise Invalid(f"{self._top.path} is neither a file nor a directory")

    async def _tree(self, landing: Landing) -> None:
        """Links come last: nothing is written through one."""
        await asyncio.to_thread(landing.directory, self._beneath(self._top), self._top.mode)
        links: list[FileEntry] = []
        after: str | None = None
        while True:
            page: EntryPage = await self._asking(
                "download_entries", DownloadEntries(transfer=self._transfer, after=after)
            )
            for entry in page.entries:
                if entry.kind == EntryKind.DIRECTORY:
                    await asyncio.to_thread(landing.directory, self._beneath(entry), entry.mode)
            links += [entry for entry in page.entries if entry.kind == EntryKind.SYMLINK]
            await self._files(landing, [entry for entry in page.entries if entry.kind == EntryKind.FILE])
            if page.next is None:
                break
            after = page.next
        for entry in links:
            target = unspell(entry.symlink or "", entry.symlink_bytes)
            await asyncio.to_thread(landing.link, self._beneath(entry), target)
        await asyncio.to_thread(landing.finish)

    async def _files(self, landing: Landing, entries: list[FileEntry]) -> None:
        waiting = list(reversed(entries))
        offset, version, tries = 0, None, 0
        while waiting:
            wanted = [
                WantedPiece(path=entry.path, path_bytes=entry.path_bytes) for entry in waiting[: -MAX_PIECES - 1 : -1]
            ]
            first = waiting[-1]
            wanted[0] = WantedPiece(path=first.path, path_bytes=first.path_bytes, offset=offset, version=version)
            page: PiecePage = await self._asking(
                "download_pieces", DownloadPieces(transfer=self._transfer, wanted=tuple(wanted))
            )
            for piece in page.pieces:
                entry = waiting[-1]
                if self._is_gone(entry, piece):
                    waiting.pop()
                    offset, version, tries = 0, None, 0
                    continue
                if _is_changed(piece) and tries < TRIES:
                    offset, version, tries = 0, None, tries + 1
                    break
                _check(piece)
                whole = await asyncio.to_thread(landing.piece, self._beneath(entry), piece, entry)
                if whole:
                    waiting.pop()
                    tries = 0
                offset, version = (0, None) if whole else (piece.offset + len(piece.data), piece.version)

    def _is_gone(self, entry: FileEntry, piece: DownloadPiece) -> bool:
        """Removed after it was listed: the tree that is there has no such file."""
        missing = piece.failure is not None and piece.failure.code == SandboxFileNotFound.code
        return missing and entry is not self._top

    def _beneath(self, entry: FileEntry) -> bytes:
        """Relative to the top; what the sandbox says is checked when it is used."""
        return _raw(entry)[len(_raw(self._top)) :].lstrip(b"/")


def _is_changed(piece: DownloadPiece) -> bool:
    return piece.failure is not None and CHANGED.items() <= piece.failure.details.items()


def _check(piece: DownloadPiece) -> None:
    if piece.failure is not None:
        raise from_failure(piece.failure)
    if not piece.data and piece.offset < piece.size:
        raise SandboxCopyFailed("a file ended before its end")


def _raw(entry: FileEntry) -> bytes:
    return unspell(entry.path, entry.path_bytes)
