"""What each tool gives back: a structure for programs, and a text that a model reads."""

from msgspec import Struct

from contracts.files import (
    ContentKind,
    FileContent,
    FileEdited,
    FileEntry,
    FileListing,
    FileWritten,
    GrepMatch,
    GrepResult,
    TruncatedBy,
)
from contracts.payload import unpack

GREP_BYTES = 64 * 1024
"""Of matches in one answer: what a model can use. A narrower search has the rest."""


class ReadAnswer(Struct, frozen=True, kw_only=True):
    path: str
    kind: ContentKind
    mime: str
    bytes: int
    """Of the whole file."""
    content: str
    """Of a text; bytes that are no UTF-8 stand as `\\xNN`. Empty for everything else."""
    first_line: int | None = None
    lines: int | None = None
    total_lines: int | None = None
    truncated: bool = False
    truncated_by: TruncatedBy | None = None
    next_offset: int | None = None


class GlobEntry(Struct, frozen=True, kw_only=True):
    path: str
    kind: str
    size: int


class GlobAnswer(Struct, frozen=True, kw_only=True):
    path: str
    entries: tuple[GlobEntry, ...]
    truncated: bool
    next: str | None = None


class GrepLine(Struct, frozen=True, kw_only=True):
    path: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class GrepAnswer(Struct, frozen=True, kw_only=True):
    path: str
    matches: tuple[GrepLine, ...]
    files_searched: int
    files_matched: int
    truncated: bool
    truncated_by: str | None = None


class WriteAnswer(Struct, frozen=True, kw_only=True):
    path: str
    bytes: int
    created: bool


class EditAnswer(Struct, frozen=True, kw_only=True):
    path: str
    replacements: int
    first_line: int
    bytes: int


class RunAnswer(Struct, frozen=True, kw_only=True):
    exec: str
    """Under which everything of it is on the log."""
    outcome: str
    """completed, timed_out, cancelled or lost."""
    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_ms: float
    stdout: str
    stderr: str
    stdout_bytes: int
    """That were written, however many of them are shown."""
    stderr_bytes: int
    truncated: bool
    cause: str


def read_answer(found: FileContent) -> ReadAnswer:
    is_text = found.kind == ContentKind.TEXT
    content = unpack(found.content, found.encoding).decode("utf-8", "backslashreplace") if is_text else ""
    return ReadAnswer(
        path=found.path,
        kind=found.kind,
        mime=found.mime,
        bytes=found.bytes,
        content=content,
        first_line=found.first_line,
        lines=found.lines,
        total_lines=found.total_lines,
        truncated=found.truncated,
        truncated_by=found.truncated_by,
        next_offset=found.next_offset,
    )


def glob_answer(found: FileListing) -> GlobAnswer:
    return GlobAnswer(
        path=found.path,
        entries=tuple(_entry(entry) for entry in found.entries),
        truncated=found.truncated,
        next=found.next,
    )


def _entry(entry: FileEntry) -> GlobEntry:
    return GlobEntry(path=entry.path, kind=str(entry.kind), size=entry.size)


def grep_answer(found: GrepResult) -> GrepAnswer:
    kept: list[GrepLine] = []
    room = GREP_BYTES
    for match in found.matches:
        room -= _size(match)
        if room < 0 and kept:
            break
        kept.append(GrepLine(path=match.path, line=match.line, text=match.text, before=match.before, after=match.after))
    is_cut = len(kept) < len(found.matches)
    return GrepAnswer(
        path=found.path,
        matches=tuple(kept),
        files_searched=found.files_searched,
        files_matched=found.files_matched,
        truncated=found.truncated or is_cut,
        truncated_by="bytes" if is_cut else found.truncated_by,
    )


def _size(match: GrepMatch) -> int:
    return len(match.path) + sum(len(line) + 1 for line in (match.text, *match.before, *match.after))


def write_answer(written: FileWritten) -> WriteAnswer:
    return WriteAnswer(path=written.path, bytes=written.size, created=written.created)


def edit_answer(edited: FileEdited) -> EditAnswer:
    return EditAnswer(
        path=edited.path, replacements=edited.replacements, first_line=edited.first_line, bytes=edited.size
    )
