"""Files and trees between this machine and a sandbox."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from contracts import transfers
from contracts.errors import (
    ClocheError,
    Conflict,
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
    UploadPiece,
    UploadPieces,
    UploadState,
    WantedPiece,
    digest_after,
)
from infra.asking import source
from infra.client.landing import Landing
from infra.client.local_tree import bundles
from infra.client.spelled_path import SandboxPath, spelled
from infra.files.downloading import CHANGED
from infra.ids import new_id

PATIENCE_S = 60.0
"""For a service that is being started again."""
ANSWER_S = 5.0
"""A request that was in a service's hands when it was killed is never answered; asked again it does no harm."""
WALK_ANSWER_S = 30.0
"""Going through a tree may have to wait for its turn."""
BEGUN_ANEW = Conflict("something that was copied already has changed since: it is begun anew").failure()
TRIES = 5
"""For a file that is changed while it is read."""
WANTED_BYTES = 500_000
"""Of the names in one request, well below what the server takes."""
ENVELOPE = 100
MOST_LINKS = 2000
"""That are kept for the end: a sandbox can have any number of them."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0

Request = Callable[[str, FileRequest, type[Any], float], Awaitable[Any]]


async def upload(
    request: Request, local: Path, path: SandboxPath, transfer: str | None, asked_by: str | None
) -> TransferDone:
    asking, at = _Asking(request), spelled(path)
    transfer = transfer or new_id("up")
    beginning = Upload(path=at.text, path_bytes=at.encoded, transfer=transfer, asked_by=asked_by, by=source.get())
    begun: UploadState = await asking("upload", beginning)
    try:
        packing = await asyncio.to_thread(_after, local, begun)
        if packing is None:
            await asking("upload_end", UploadEnd(transfer=transfer, failure=BEGUN_ANEW))
            begun, packing = await asking("upload", beginning), bundles(local)
        number = begun.number
        while (pieces := await asyncio.to_thread(next, packing, None)) is not None:
            await asking("upload_pieces", UploadPieces(transfer=transfer, number=number, pieces=pieces))
            number += 1
        done: TransferDone = await asking("upload_end", UploadEnd(transfer=transfer))
    except (ClocheError, OSError) as error:
        failed = error if isinstance(error, ClocheError) else SandboxCopyFailed(f"{local}: {error.strerror}")
        with suppress(ClocheError):
            await asking("upload_end", UploadEnd(transfer=transfer, failure=_without_paths(failed)))
        raise failed from error
    return done


def _after(local: Path, begun: UploadState) -> Iterator[tuple[UploadPiece, ...]] | None:
    """What is still to be sent; None if what was taken already is not what is here now."""
    packing, digest = bundles(local), ""
    for pieces in islice(packing, begun.number):
        digest = digest_after(digest, pieces)
    return packing if digest == begun.digest else None


async def download(request: Request, path: SandboxPath, local: Path, asked_by: str | None) -> TransferDone:
    asking, at = _Asking(request), spelled(path)
    transfer = new_id("down")
    beginning = Download(path=at.text, path_bytes=at.encoded, transfer=transfer, asked_by=asked_by, by=source.get())
    begun: DownloadBegun = await asking("download", beginning)
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
        """Links come last, as far as memory allows: none leads out of the landing, but it might lead another way."""
        await asyncio.to_thread(landing.directory, self._beneath(self._top), self._top.mode)
        links: list[FileEntry] = []
        too_deep = 0
        async for page in self._pages():
            for entry in page.entries:
                if entry.kind == EntryKind.DIRECTORY:
                    await asyncio.to_thread(landing.directory, self._beneath(entry), entry.mode)
            await self._files(landing, [entry for entry in page.entries if entry.kind == EntryKind.FILE])
            links += [entry for entry in page.entries if entry.kind == EntryKind.SYMLINK]
            if len(links) > MOST_LINKS:
                await self._links(landing, links)
                links = []
            too_deep += page.too_deep
        await self._links(landing, links)
        await asyncio.to_thread(landing.finish)
        if too_deep:
            raise SandboxCopyFailed(f"{self._top.path}: {too_deep} directories in it are too deep, and are not copied")

    async def _pages(self) -> AsyncIterator[EntryPage]:
        after: str | None = None
        while True:
            page: EntryPage = await self._asking(
                "download_entries", DownloadEntries(transfer=self._transfer, after=after)
            )
            yield page
            if page.next is None:
                return
            after = page.next

    async def _links(self, landing: Landing, entries: Sequence[FileEntry]) -> None:
        for entry in entries:
            target = unspell(entry.symlink or "", entry.symlink_bytes)
            await asyncio.to_thread(landing.link, self._beneath(entry), target)

    async def _files(self, landing: Landing, entries: list[FileEntry]) -> None:
        waiting = list(reversed(entries))
        offset, version, tries = 0, None, 0
        while waiting:
            wanted = _wanted(waiting)
            wanted[0] = msgspec.structs.replace(wanted[0], offset=offset, version=version)
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
        return entry.raw_path[len(self._top.raw_path) :].lstrip(b"/")


def _wanted(waiting: Sequence[FileEntry]) -> list[WantedPiece]:
    """The last of them first, as many as one message takes."""
    wanted: list[WantedPiece] = []
    room = WANTED_BYTES
    for entry in islice(reversed(waiting), MAX_PIECES):
        at = spelled(entry.raw_path)
        room -= 2 * len(at.text) + len(at.encoded or "") + ENVELOPE
        if wanted and room < 0:
            break
        wanted.append(WantedPiece(path=at.text, path_bytes=at.encoded))
    return wanted


def _is_changed(piece: DownloadPiece) -> bool:
    return piece.failure is not None and CHANGED.items() <= piece.failure.details.items()


def _check(piece: DownloadPiece) -> None:
    if piece.failure is not None:
        raise from_failure(piece.failure)
    if not piece.data and piece.offset < piece.size:
        raise SandboxCopyFailed("a file ended before its end")
