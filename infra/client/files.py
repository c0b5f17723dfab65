"""The files of a sandbox, as a program outside sees them."""

from collections.abc import AsyncIterator
from os import PathLike
from pathlib import Path
from typing import Any

from contracts import files as requests
from contracts import subjects
from contracts.errors import SandboxFileTooLarge
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
from contracts.payload import Encoding, pack, unpack
from contracts.transfers import TransferDone
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.client.copying import download, upload

TIMEOUT_S = 120.0
"""The server forgets whom to answer after two minutes."""


class Files:
    """Paths are relative to the workspace, absolute as the sandbox sees them, or begin with `~`, the workspace.

    Every call raises `SandboxPathDenied` for what is not in the workspace or not permitted, `SandboxFileNotFound`,
    `Invalid` for what cannot be meant, `SandboxInvalidState` for a sandbox without a workspace, `Unavailable`.
    """

    def __init__(self, bus: Bus, *, node: str, sandbox: str, asked_by: str | None = None) -> None:
        self._bus = bus
        self._node = node
        self._sandbox = sandbox
        self._asked_by = asked_by

    async def read(self, path: str, *, offset: int = 1, limit: int = 2000, max_bytes: int = 256 * 1024) -> FileContent:
        """`limit` lines of a text from line `offset` on; or an image or another binary file, whole, in base64.

        Raises `SandboxFileTooLarge`, with the size: a binary file over 512 KiB, a text over 64 MiB.
        """
        request = requests.ReadFile(path=path, offset=offset, limit=limit, max_bytes=max_bytes, asked_by=self._asked_by)
        answer: FileContent = await self._ask("read", request)
        return answer

    async def read_bytes(self, path: str) -> bytes:
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
        self, path: str, content: str | bytes, *, append: bool = False, mode: int | None = None
    ) -> FileWritten:
        """At once: whoever reads it has the old content or the new. Makes the directories on its way.

        A symbolic link in its place is refused. Raises `SandboxWriteFailed`, for a full disk, say.
        """
        data, encoding = (content, Encoding.UTF8) if isinstance(content, str) else pack(content)
        request = requests.WriteFile(
            path=path, content=data, encoding=encoding, append=append, mode=mode, asked_by=self._asked_by
        )
        answer: FileWritten = await self._ask("write", request)
        return answer

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> FileEdited:
        """Raises `SandboxEditNoMatch`, `SandboxEditManyMatches`, `Conflict` when the file was changed meanwhile."""
        request = requests.EditFile(path=path, old=old, new=new, replace_all=replace_all, asked_by=self._asked_by)
        answer: FileEdited = await self._ask("edit", request)
        return answer

    async def list(self, path: str = ".", *, recursive: bool = False) -> AsyncIterator[FileEntry]:
        """Sorted by path; a directory comes before what is in it."""
        after: str | None = None
        while True:
            request = requests.ListFiles(path=path, recursive=recursive, after=after, asked_by=self._asked_by)
            page: FileListing = await self._ask("list", request)
            for entry in page.entries:
                yield entry
            if page.next is None:
                return
            after = page.next

    async def glob(self, pattern: str, path: str = ".") -> AsyncIterator[FileEntry]:
        """`*` and `?` within a name, `**` over directories, `[a-z]`, `{a,b}`; relative to `path`."""
        after: str | None = None
        while True:
            request = requests.GlobFiles(pattern=pattern, path=path, after=after, asked_by=self._asked_by)
            page: FileListing = await self._ask("glob", request)
            for entry in page.entries:
                yield entry
            if page.next is None:
                return
            after = page.next

    async def grep(
        self,
        pattern: str,
        path: str = ".",
        *,
        ignore_case: bool = False,
        files: str | None = None,
        context: int = 0,
        limit: int = 500,
        timeout_ms: int = 20_000,
    ) -> GrepResult:
        """Lines that match a regular expression (RE2's syntax: no backreferences, and never slow)."""
        request = requests.GrepFiles(
            pattern=pattern,
            path=path,
            ignore_case=ignore_case,
            files=files,
            context=context,
            limit=limit,
            timeout_ms=timeout_ms,
            asked_by=self._asked_by,
        )
        answer: GrepResult = await self._ask("grep", request)
        return answer

    async def stat(self, path: str, *, follow: bool = True) -> FileEntry:
        answer: FileEntry = await self._ask(
            "stat", requests.StatFile(path=path, follow=follow, asked_by=self._asked_by)
        )
        return answer

    async def mkdir(self, path: str, *, mode: int = 0o755) -> DirectoryMade:
        """With those on its way; one that is there already is fine."""
        request = requests.MakeDirectory(path=path, mode=mode, asked_by=self._asked_by)
        answer: DirectoryMade = await self._ask("mkdir", request)
        return answer

    async def remove(self, path: str, *, recursive: bool = False) -> FileRemoved:
        request = requests.RemoveFile(path=path, recursive=recursive, asked_by=self._asked_by)
        answer: FileRemoved = await self._ask("remove", request)
        return answer

    async def move(self, path: str, to: str, *, overwrite: bool = False) -> FileRenamed:
        request = requests.MoveFile(path=path, to=to, overwrite=overwrite, asked_by=self._asked_by)
        answer: FileRenamed = await self._ask("move", request)
        return answer

    async def put(self, local: str | PathLike[str], path: str, *, transfer: str | None = None) -> TransferDone:
        """Copy a file or a tree of this machine into the sandbox, as `path`. Modes and symbolic links are kept.

        In flat memory, whatever the size; each file appears when it is whole. A lost connection is waited out; after
        a crash of this program, a call with the same `transfer` goes on where it was.
        Raises `SandboxCopyFailed`, and `SandboxFileTooLarge` for more than the sandbox's disk.
        """
        return await upload(self._request, Path(local), path, transfer, self._asked_by)

    async def get(self, path: str, local: str | PathLike[str]) -> TransferDone:
        """Copy a file or a tree out of the sandbox, as `local`. Nothing is ever written outside that.

        Raises `SandboxCopyFailed` for a file that changes all the time, and for what cannot be written here.
        """
        return await download(self._request, path, Path(local), self._asked_by)

    async def _ask(self, verb: str, request: FileRequest) -> Any:
        return await self._request(verb, request, requests.ANSWERS[verb])

    async def _request(self, verb: str, request: FileRequest, answer: type[Any], timeout: float = TIMEOUT_S) -> Any:
        subject = subjects.rpc("files", self._node, self._sandbox, verb)
        return await ask(self._bus, subject, request, answer, timeout=timeout)
