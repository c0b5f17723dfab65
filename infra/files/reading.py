"""Reading a file for somebody who wants to look at it: by lines where it is text, whole where it is not."""

import os
from typing import NamedTuple

from contracts import codec
from contracts.errors import SandboxFileTooLarge, Unavailable
from contracts.files import MAX_READ_BYTES, MAX_TEXT_FILE, ContentKind, FileContent, ReadFile, TruncatedBy
from contracts.payload import Payload, pack, pack_base64
from infra.files.images import image_type
from infra.files.trouble import told
from infra.files.workspace import Workspace

HEAD = 8192
"""A NUL in the first so many bytes: not a text."""
BLOCK = 1 << 20
MAX_PACKED = 900_000
TEXT_MIME, BINARY_MIME = "text/plain", "application/octet-stream"


class Lines(NamedTuple):
    data: bytes
    total: int
    taken: int
    """How many are in `data`."""
    by: TruncatedBy | None


def read_file(workspace: Workspace, request: ReadFile) -> FileContent:
    """Raises `SandboxFileNotFound`, `SandboxPathDenied`, `Invalid` (a directory), `SandboxFileTooLarge` (its size)."""
    names = workspace.names(request.path, request.path_bytes)
    shown = workspace.shown(names)
    with told(shown, Unavailable), workspace.file(names) as descriptor:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, HEAD, 0)
        mime = image_type(head)
        if mime is not None or b"\x00" in head:
            kind = ContentKind.BINARY if mime is None else ContentKind.IMAGE
            return _whole(descriptor, shown, kind, mime or BINARY_MIME)
        _bound(size, MAX_TEXT_FILE, "read it in parts with `grep`, or download it")
        lines = take_lines(descriptor, request.offset, request.limit, request.max_bytes)
    return _text(shown, size, request.offset, lines)


def _whole(descriptor: int, shown: str, kind: ContentKind, mime: str) -> FileContent:
    size = os.fstat(descriptor).st_size
    _bound(size, MAX_READ_BYTES, "download it")
    data = read_exactly(descriptor, size)
    packed = pack_base64(data)
    return FileContent(path=shown, kind=kind, content=packed.data, encoding=packed.encoding, bytes=len(data), mime=mime)


def _bound(size: int, most: int, instead: str) -> None:
    if size > most:
        raise SandboxFileTooLarge(f"{size} bytes, {most} at most: {instead}", size=str(size), limit=str(most))


def _text(shown: str, size: int, first: int, lines: Lines) -> FileContent:
    data, encoding = _packed(lines.data)
    return FileContent(
        path=shown,
        kind=ContentKind.TEXT,
        content=data,
        encoding=encoding,
        bytes=size,
        mime=TEXT_MIME,
        total_lines=lines.total,
        first_line=first,
        lines=lines.taken,
        truncated=lines.by is not None,
        truncated_by=lines.by,
        next_offset=None if lines.by is None else first + lines.taken,
    )


def _packed(data: bytes) -> Payload:
    """A text of nothing but control characters would be six times as long in JSON."""
    packed = pack(data)
    return packed if len(codec.encode(packed.data)) <= MAX_PACKED else pack_base64(data)


def take_lines(descriptor: int, first: int, limit: int, max_bytes: int) -> Lines:
    """`limit` lines from line `first` on, whole ones as long as they fit; memory stays flat. Counts to the end."""
    taken = _Taken(first, limit, max_bytes)
    at = 0
    while block := os.pread(descriptor, BLOCK, at):
        at += len(block)
        taken.feed(block)
    return taken.end()


class _Taken:
    def __init__(self, first: int, limit: int, max_bytes: int) -> None:
        self._first, self._last, self._most = first, first + limit - 1, max_bytes
        self._line = 1
        """The line that the next byte belongs to."""
        self._kept = bytearray()
        self._started = False
        """Whether the current line has a byte yet."""

    def feed(self, block: bytes) -> None:
        at = 0
        while at < len(block):
            if self._wanted():
                at = self._keep(block, at)
            elif self._line < self._first:
                at = self._skip_to_first(block, at)
            else:
                self._count(block[at:])
                return

    def _wanted(self) -> bool:
        return self._first <= self._line <= self._last and len(self._kept) <= self._most

    def _skip_to_first(self, block: bytes, at: int) -> int:
        newlines = block.count(b"\n", at)
        if self._line + newlines >= self._first:
            return self._skip(block, at)
        self._count(block[at:])
        return len(block)

    def _skip(self, block: bytes, at: int) -> int:
        end = block.find(b"\n", at)
        if end < 0:
            self._started = True
            return len(block)
        self._line += 1
        self._started = False
        return end + 1

    def _keep(self, block: bytes, at: int) -> int:
        end = self._skip(block, at)
        self._kept += block[at:end][: self._most + 1 - len(self._kept)]
        return end

    def _count(self, rest: bytes) -> None:
        self._line += rest.count(b"\n")
        self._started = not rest.endswith(b"\n")

    def end(self) -> Lines:
        total = self._line if self._started else self._line - 1
        data = bytes(self._kept)
        if len(data) > self._most:
            data = _cut(data[: self._most])
            return Lines(data, total, max(1, data.count(b"\n")), TruncatedBy.BYTES)
        count = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        return Lines(data, total, count, TruncatedBy.LINES if total > self._last else None)


def _cut(data: bytes) -> bytes:
    """After the last whole line; a single line that is too long, after its last whole character."""
    end = data.rfind(b"\n") + 1
    if end:
        return data[:end]
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead >= 0xC0:
            return data if back == 2 + (lead >= 0xE0) + (lead >= 0xF0) else data[:-back]
        if lead < 0x80:
            break
    return data


def read_exactly(descriptor: int, size: int) -> bytes:
    """The first `size` bytes, or fewer where the file has become shorter."""
    data = bytearray()
    while len(data) < size and (block := os.pread(descriptor, size - len(data), len(data))):
        data += block
    return bytes(data)
