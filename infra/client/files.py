"""The files of a sandbox, as a program outside sees them."""

import logging
from collections.abc import AsyncIterator
from os import PathLike
from pathlib import Path
from typing import Any

from contracts import codec, subjects
from contracts import files as requests
from contracts.errors import Invalid, SandboxFileTooLarge
from contracts.files import (
    ContentKind,
    DirectoryMade,
    FileContent,
    FileEdited,
    FileEntry,
    FileListing,
    FileRemoved,
    FileRenamed,
    FileRequest,
    FileWritten,
    GrepResult,
    TruncatedBy,
)
from contracts.payload import Payload, pack, pack_base64, unpack
from contracts.transfers import TransferDone
from infra import asking
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.client.copying import download, upload
from infra.client.spelled_path import SandboxPath, spelled

logger = logging.getLogger(__name__)

TIMEOUT_S = 120.0
"""The server forgets whom to answer after two minutes."""
MAX_REQUEST = 2_050_000
"""A little less than the server takes."""
MAX_CONTENT = 1_850_000
"""Of it, as JSON: the rest is for the path."""


class Files:
    """Paths are relative to the workspace, absolute as the sandbox sees them, or begin with `~`, the workspace.

    A name that is not UTF-8 is given as bytes, such as `raw_path` of what was listed, or as `os.fsdecode` has it.

    Every call raises `SandboxPathDenied` for what is not in the workspace or not permitted, `SandboxFileNotFound`,
    `Invalid` for what cannot be meant, `SandboxInvalidState` for a sandbox without a workspace, `Unavailable`.
    """

    def __init__(self, bus: Bus, *, node: str, sandbox: str, asked_by: str | None = None) -> None:
        self._bus = bus
        self._node = node
        self._sandbox = sandbox
        self._asked_by = asked_by

    async def read(
        self, path: SandboxPath, *, offset: int = 1, limit: int = 2000, max_bytes: int = 256 * 1024
    ) -> FileContent:
        """`limit` lines of a text from line `offset` on; or an image or another binary file, whole, in base64.

        Raises `SandboxFileTooLarge`, with the size: a binary file over 512 KiB, a text over 64 MiB.
        """
        answer: FileContent = await self._ask("read", path, offset=offset, limit=limit, max_bytes=max_bytes)
        return answer

    async def read_bytes(self, path: SandboxPath) -> bytes:
        """All of a file of moderate size. Larger ones are for `get`.

        Raises `SandboxFileTooLarge`, also for a text with a line of more than 512 KiB.
        """
        content, first = bytearray(), 1
        while True:
            page = await self.read(path, offset=first, limit=1_000_000, max_bytes=requests.MAX_READ_BYTES)
            data = unpack(page.content, page.encoding)
            if page.truncated_by == TruncatedBy.BYTES and not data.endswith(b"\n"):
                raise SandboxFileTooLarge(f"{page.path}: line {first} is too long: use `get`", size=str(page.bytes))
            content += data
            if page.kind != ContentKind.TEXT or page.next_offset is None:
                return bytes(content)
            first = page.next_offset

    async def write(
        self, path: SandboxPath, content: str | bytes, *, append: bool = False, mode: int | None = None
    ) -> FileWritten:
        """At once: whoever reads it has the old content or the new. Makes the directories on its way.

        A symbolic link in its place is refused. Raises `SandboxWriteFailed`, for a full disk, say, and
        `SandboxFileTooLarge` for what does not fit into one request: `put` takes any size.
        """
        data, encoding = _packed(content)
        answer: FileWritten = await self._ask("write", path, content=data, encoding=encoding, append=append, mode=mode)
        return answer

    async def edit(self, path: SandboxPath, old: str, new: str, *, replace_all: bool = False) -> FileEdited:
        """Raises `SandboxEditNoMatch`, `SandboxEditManyMatches`, `Conflict` when the file was changed meanwhile."""
        answer: FileEdited = await self._ask("edit", path, old=old, new=new, replace_all=replace_all)
        return answer

    async def list(self, path: SandboxPath = ".", *, recursive: bool = False) -> AsyncIterator[FileEntry]:
        """Sorted by path; a directory comes before what is in it."""
        async for entry in self._pages("list", path, recursive=recursive):
            yield entry

    async def glob(self, pattern: str, path: SandboxPath = ".") -> AsyncIterator[FileEntry]:
        """`*` and `?` within a name, `**` over directories, `[a-z]`, `{a,b}`; relative to `path`."""
        async for entry in self._pages("glob", path, pattern=pattern):
            yield entry

    async def grep(
        self,
        pattern: str,
        path: SandboxPath = ".",
        *,
        ignore_case: bool = False,
        files: str | None = None,
        context: int = 0,
        limit: int = 500,
        timeout_ms: int = 20_000,
    ) -> GrepResult:
        """Lines that match a regular expression (RE2's syntax: no backreferences, and never slow)."""
        answer: GrepResult = await self._ask(
            "grep",
            path,
            pattern=pattern,
            ignore_case=ignore_case,
            files=files,
            context=context,
            limit=limit,
            timeout_ms=timeout_ms,
        )
        return answer

    async def stat(self, path: SandboxPath, *, follow: bool = True) -> FileEntry:
        answer: FileEntry = await self._ask("stat", path, follow=follow)
        return answer

    async def mkdir(self, path: SandboxPath, *, mode: int = 0o755) -> DirectoryMade:
        """With those on its way; one that is there already is fine."""
        answer: DirectoryMade = await self._ask("mkdir", path, mode=mode)
        return answer

    async def remove(self, path: SandboxPath, *, recursive: bool = False) -> FileRemoved:
        answer: FileRemoved = await self._ask("remove", path, recursive=recursive)
        return answer

    async def move(self, path: SandboxPath, to: SandboxPath, *, overwrite: bool = False) -> FileRenamed:
        there = spelled(to)
        answer: FileRenamed = await self._ask("move", path, to=there.text, to_bytes=there.encoded, overwrite=overwrite)
        return answer

    async def put(self, local: str | PathLike[str], path: SandboxPath, *, transfer: str | None = None) -> TransferDone:
        """Copy a file or a tree of this machine into the sandbox, as `path`. Modes and symbolic links are kept.

        In flat memory, whatever the size; each file appears when it is whole. A lost connection is waited out; after
        a crash of this program, a call with the same `transfer` goes on where it was, and begins anew where something
        of what was copied already has changed here since.
        Raises `SandboxCopyFailed`, and `SandboxFileTooLarge` for more than the sandbox's disk.
        """
        return await upload(self._request, Path(local), path, transfer, self._asked_by)

    async def get(self, path: SandboxPath, local: str | PathLike[str]) -> TransferDone:
        """Copy a file or a tree out of the sandbox, as `local`. Nothing is ever written outside that.

        Raises `SandboxCopyFailed` for a file that changes all the time, and for what cannot be written here.
        """
        return await download(self._request, path, Path(local), self._asked_by)

    async def _pages(self, verb: str, path: SandboxPath, **wanted: Any) -> AsyncIterator[FileEntry]:
        after: str | None = None
        while True:
            page: FileListing = await self._ask(verb, path, after=after, **wanted)
            for entry in page.entries:
                yield entry
            if page.too_deep:
                logger.warning("%s: %d directories are too deep to be looked into", page.path, page.too_deep)
            if page.next is None:
                return
            after = page.next

    async def _ask(self, verb: str, path: SandboxPath, **wanted: Any) -> Any:
        at = spelled(path)
        make: Any = requests.REQUESTS[verb]
        request = make(path=at.text, path_bytes=at.encoded, asked_by=self._asked_by, by=asking.source.get(), **wanted)
        if (size := len(codec.encode(request))) > MAX_REQUEST:
            raise SandboxFileTooLarge(f"{at.text}: too much for one {verb}: {size} bytes", size=str(size))
        return await self._request(verb, request, requests.ANSWERS[verb])

    async def _request(self, verb: str, request: FileRequest, answer: type[Any], timeout: float = TIMEOUT_S) -> Any:
        subject = subjects.rpc("files", self._node, self._sandbox, verb)
        return await ask(self._bus, subject, request, answer, timeout=timeout)


def _packed(content: str | bytes) -> Payload:
    """A text of many control characters is shorter in base64."""
    try:
        raw = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError as error:
        raise Invalid(f"text that is not Unicode cannot be written: {error.reason}") from error
    for packed in (pack(raw), pack_base64(raw)):
        if len(packed.data) <= requests.MAX_WRITE_CHARACTERS and len(codec.encode(packed.data)) <= MAX_CONTENT:
            return packed
    most = requests.MAX_WRITE_CHARACTERS
    raise SandboxFileTooLarge(f"{len(raw)} bytes, {most} characters at most at once: use `put`", size=str(len(raw)))
