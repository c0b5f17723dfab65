"""The content of a file as it lies in the workspace: of one that is too large to be kept, or is not followed."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from contracts import subjects
from contracts.errors import ClocheError, Invalid, SandboxCopyFailed, from_failure
from contracts.events.file import EntryKind
from contracts.files import FileRequest
from contracts.transfers import (
    ANSWERS,
    Download,
    DownloadBegun,
    DownloadEnd,
    DownloadPieces,
    PiecePage,
    WantedPiece,
)
from infra.client.asking import ask
from infra.client.sandbox import Sandbox
from infra.client.spelled_path import spelled
from infra.ids import new_id
from services.gateway.desk import Desk

ANSWER_S = 30.0


class LiveContent:
    """One download, which the log tells of as one tool call."""

    def __init__(self, desk: Desk, sandbox: Sandbox, path: bytes) -> None:
        self._desk = desk
        self._sandbox = sandbox
        self._path = spelled(path)
        self._transfer = new_id("down")
        self.size = 0

    async def begin(self) -> None:
        """Raises `SandboxFileNotFound`, `SandboxPathDenied`, `Invalid` for what is no file, `Unavailable`."""
        text, encoded = self._path
        begun: DownloadBegun = await self._ask(
            "download", Download(path=text, path_bytes=encoded, transfer=self._transfer)
        )
        if begun.entry.kind != EntryKind.FILE:
            failed = Invalid(f"{begun.entry.path} is a {begun.entry.kind}, not a file")
            await self.end(failed)
            raise failed
        self.size = begun.entry.size

    async def cut(self, start: int, end: int) -> AsyncIterator[bytes]:
        """Raises `SandboxCopyFailed` when it is changed meanwhile."""
        failed: ClocheError | None = None
        version: str | None = None
        try:
            while start < end:
                wanted = WantedPiece(path=self._path.text, path_bytes=self._path.encoded, offset=start, version=version)
                page: PiecePage = await self._ask(
                    "download_pieces", DownloadPieces(transfer=self._transfer, wanted=(wanted,))
                )
                piece = page.pieces[0]
                if piece.failure is not None:
                    raise from_failure(piece.failure)
                if not piece.data:
                    raise SandboxCopyFailed("the file ended before its end")
                version, data = piece.version, piece.data[: end - start]
                start += len(data)
                yield data
        except ClocheError as error:
            failed = error
            raise
        finally:
            await self.end(failed)

    async def end(self, failed: ClocheError | None) -> None:
        """Without it the log says for long that somebody reads. `cut` does it by itself."""
        with suppress(ClocheError):
            ending = DownloadEnd(transfer=self._transfer, failure=None if failed is None else failed.failure())
            await self._ask("download_end", ending)

    async def _ask(self, verb: str, request: FileRequest) -> Any:
        subject = subjects.rpc("files", self._sandbox.state.node, self._sandbox.id, verb)
        return await ask(self._desk.bus, subject, request, ANSWERS[verb], timeout=ANSWER_S)


async def find(desk: Desk, sandbox: Sandbox, path: bytes) -> LiveContent:
    """Raises what `begin` raises."""
    content = LiveContent(desk, sandbox, path)
    await content.begin()
    return content
