"""What somebody sends, into a sandbox's workspace: a small file at once, a large one as it comes."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Protocol

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


class Arrived(Protocol):
    """All that somebody sends is here, and the file is as it was."""

    async def store(self) -> Stored:
        """Raises `SandboxPathDenied`, `SandboxFileTooLarge`, `SandboxWriteFailed`, `Invalid`, `Unavailable`."""
        ...


@asynccontextmanager
async def arrived(
    desk: Desk, sandbox: Sandbox, path: bytes, request: Asked, mode: int | None
) -> AsyncIterator[Arrived]:
    """What is not stored within is forgotten. Raises what `store` raises."""
    pieces = _pieces(request)
    first = await anext(pieces, b"")
    length = int(request.headers.get("content-length", "0") or 0)
    if len(first) < PIECE_BYTES or length == PIECE_BYTES:
        yield _Small(sandbox, path, first, mode)
        return
    if not length:
        raise Invalid(f"a file of more than {PIECE_BYTES} bytes needs a Content-Length")
    async with _uploading(desk, sandbox, path, length) as upload:
        await upload.take(first, pieces, mode)
        yield upload


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


class _Small:
    def __init__(self, sandbox: Sandbox, path: bytes, content: bytes, mode: int | None) -> None:
        self._sandbox = sandbox
        self._path = path
        self._content = content
        self._mode = mode

    async def store(self) -> Stored:
        written = await self._sandbox.files.write(self._path, self._content, mode=self._mode)
        return Stored(len(self._content), hashlib.sha256(self._content).hexdigest(), written.created)


class _Upload:
    """The file comes to be with its last byte, so the last piece is kept back."""

    def __init__(self, desk: Desk, sandbox: Sandbox, path: bytes, size: int) -> None:
        self._desk = desk
        self._sandbox = sandbox
        self._path = path
        self._size = size
        self._transfer = new_id("up")
        self._digest = hashlib.sha256()
        self._mode = NEW_MODE
        self._sent = 0
        self._last = b""

    async def begin(self) -> None:
        name = spelled(self._path)
        await self._ask("upload", Upload(path=name.text, path_bytes=name.encoded, transfer=self._transfer))

    async def take(self, first: bytes, rest: AsyncIterator[bytes], mode: int | None) -> None:
        before = await self._mode_before() if mode is None else mode
        self._mode = NEW_MODE if before is None else before
        self._last = first
        async for piece in rest:
            await self._send_last()
            self._last = piece
        if (came := self._sent + len(self._last)) < self._size:
            raise Invalid(f"{came} bytes came, {self._size} were announced")

    async def store(self) -> Stored:
        created = await self._mode_before() is None
        await self._send_last()
        await self._ask("upload_end", UploadEnd(transfer=self._transfer))
        return Stored(self._size, self._digest.hexdigest(), created)

    async def _mode_before(self) -> int | None:
        try:
            return (await self._sandbox.files.stat(self._path, follow=False)).mode
        except SandboxFileNotFound:
            return None

    async def _send_last(self) -> None:
        data, number = self._last, self._sent // PIECE_BYTES
        self._digest.update(data)
        piece = UploadPiece(mode=self._mode, size=self._size, offset=self._sent, data=data)
        await self._ask("upload_pieces", UploadPieces(transfer=self._transfer, number=number, pieces=(piece,)))
        self._sent += len(data)

    async def give_up(self) -> None:
        failure = Failure(code=Invalid.code, message="the upload was given up by whoever asked for it")
        with suppress(ClocheError):
            await self._ask("upload_end", UploadEnd(transfer=self._transfer, failure=failure))

    async def _ask(self, verb: str, request: FileRequest) -> Any:
        subject = subjects.rpc("files", self._sandbox.state.node, self._sandbox.id, verb)
        return await ask(self._desk.bus, subject, request, ANSWERS[verb], timeout=ANSWER_S)


@asynccontextmanager
async def _uploading(desk: Desk, sandbox: Sandbox, path: bytes, size: int) -> AsyncIterator[_Upload]:
    upload = _Upload(desk, sandbox, path, size)
    await upload.begin()
    try:
        yield upload
    except BaseException:
        await upload.give_up()
        raise
