"""What somebody sends, into a sandbox's workspace: a small file at once, a large one as it comes."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

from litestar.params import JSONBody

from contracts import subjects
from contracts.errors import ClocheError, Failure, Invalid, SandboxFileNotFound
from contracts.files import FileRequest
from contracts.transfers import (
    ANSWERS,
    PIECE_BYTES,
    Upload,
    UploadEnd,
    UploadPiece,
    UploadPieces,
)
from infra.client.asking import ask
from infra.client.sandbox import Sandbox
from infra.client.spelled_path import spelled
from infra.ids import new_id
from services.gateway.desk import Desk
from services.gateway.routes.params import Asked

ANSWER_S = 30.0
NEW_MODE = 0o644


class Stored(NamedTuple):
    size: int
    sha256: str
    created: bool


async def store(desk: Desk, sandbox: Sandbox, path: bytes, request: Asked, mode: int | None) -> Stored:
    """Raises `SandboxPathDenied`, `SandboxFileTooLarge`, `SandboxWriteFailed`, `Invalid`, `Unavailable`."""
    pieces = _pieces(request)
    first = await anext(pieces, b"")
    length = int(request.headers.get("content-length", "0") or 0)
    if len(first) < PIECE_BYTES or length == PIECE_BYTES:
        written = await sandbox.files.write(path, first, mode=mode)
        return Stored(len(first), hashlib.sha256(first).hexdigest(), written.created)
    if not length:
        raise Invalid(f"a file of more than {PIECE_BYTES} bytes needs a Content-Length")
    return await _Upload(desk, sandbox, path, length).run(first, pieces, mode)


async def _pieces(request: Asked) -> AsyncIterator[bytes]:
    """All but the last of the same size."""
    held = bytearray()
    async for chunk in request.stream():
        held += chunk
        while len(held) >= PIECE_BYTES:
            yield bytes(held[:PIECE_BYTES])
            del held[:PIECE_BYTES]
    if held:
        yield bytes(held)


class _Upload:
    """The file comes to be with its last byte."""

    def __init__(self, desk: Desk, sandbox: Sandbox, path: bytes, size: int) -> None:
        self._desk = desk
        self._sandbox = sandbox
        self._path = path
        self._size = size
        self._transfer = new_id("up")
        self._digest = hashlib.sha256()

    async def run(self, first: bytes, rest: AsyncIterator[bytes], mode: int | None) -> Stored:
        before = await self._mode_before()
        name = spelled(self._path)
        await self._ask("upload", Upload(path=name.text, path_bytes=name.encoded, transfer=self._transfer))
        chosen = NEW_MODE if before is None else before
        try:
            sent = await self._send(0, 0, first, chosen if mode is None else mode)
            async for piece in rest:
                sent = await self._send(sent // PIECE_BYTES, sent, piece, chosen if mode is None else mode)
            if sent < self._size:
                raise Invalid(f"{sent} bytes came, {self._size} were announced")
            await self._ask("upload_end", UploadEnd(transfer=self._transfer))
        except BaseException:
            await self._give_up()
            raise
        return Stored(self._size, self._digest.hexdigest(), created=before is None)

    async def _mode_before(self) -> int | None:
        try:
            return (await self._sandbox.files.stat(self._path, follow=False)).mode
        except SandboxFileNotFound:
            return None

    async def _send(self, number: int, offset: int, data: JSONBody[bytes], mode: int) -> int:
        """Returns how far it has come."""
        self._digest.update(data)
        piece = UploadPiece(mode=mode, size=self._size, offset=offset, data=data)
        await self._ask("upload_pieces", UploadPieces(transfer=self._transfer, number=number, pieces=(piece,)))
        return offset + len(data)

    async def _give_up(self) -> None:
        failure = Failure(code=Invalid.code, message="the upload was given up by whoever asked for it")
        with suppress(ClocheError):
            await self._ask("upload_end", UploadEnd(transfer=self._transfer, failure=failure))

    async def _ask(self, verb: str, request: FileRequest) -> Any:
        subject = subjects.rpc("files", self._sandbox.state.node, self._sandbox.id, verb)
        return await ask(self._desk.bus, subject, request, ANSWERS[verb], timeout=ANSWER_S)
