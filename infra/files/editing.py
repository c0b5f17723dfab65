"""Replacing an exact string in a file."""

import os
from typing import NamedTuple

from contracts.errors import Conflict, Invalid, SandboxEditManyMatches, SandboxEditNoMatch, SandboxFileTooLarge
from contracts.files import MAX_EDITED_FILE, EditFile, FileEdited
from infra.files.reading import read_exactly
from infra.files.staging import Staging, existing
from infra.files.trouble import told
from infra.files.workspace import Workspace
from infra.files.writing import write_all


class Replaced(NamedTuple):
    data: bytes
    replacements: int
    first: int
    """Where the first one was."""


def replaced(data: bytes, old: bytes, new: bytes, *, everywhere: bool) -> Replaced:
    """Pure. Raises `SandboxEditNoMatch`, `SandboxEditManyMatches` unless `everywhere`, `SandboxFileTooLarge`.

    Places that overlap are several: nobody can tell which one was meant. Everywhere is from the left, none overlapping.
    """
    first = data.find(old)
    if first < 0:
        raise SandboxEditNoMatch("the text to be replaced is not in the file")
    if everywhere:
        count = data.count(old)
        _bound(len(data) + count * (len(new) - len(old)))
        return Replaced(data.replace(old, new), count, first)
    if data.find(old, first + 1) >= 0:
        count = max(2, data.count(old))
        raise SandboxEditManyMatches(
            f"the text to be replaced is in the file {count} times: give more of what is around it, or replace all",
            matches=str(count),
        )
    return Replaced(data[:first] + new + data[first + len(old) :], 1, first)


def _bound(size: int) -> None:
    """Of the file, before and after: a short text that is there often can become any number of bytes."""
    if size > MAX_EDITED_FILE:
        what = f"{size} bytes; only files that have up to {MAX_EDITED_FILE}, and keep to it, are edited"
        raise SandboxFileTooLarge(what, size=str(size), limit=str(MAX_EDITED_FILE))


def edit_file(workspace: Workspace, staging: Staging, request: EditFile) -> FileEdited:
    """Raises `Conflict` when the file was changed meanwhile, `SandboxFileTooLarge`, and what `write_file` raises."""
    names = workspace.names(request.path, request.path_bytes)
    old, new = request.old.encode(), request.new.encode()
    if old == new:
        raise Invalid("the old and the new text are the same")
    with told(workspace.shown(names)), workspace.parent(names) as target:
        existing(target)
        with workspace.file(names) as descriptor:
            before = os.fstat(descriptor)
            _bound(before.st_size)
            data = read_exactly(descriptor, before.st_size)
        done = replaced(data, old, new, everywhere=request.replace_all)
        with staging.new_file(target) as made:
            write_all(made.descriptor, done.data)
            now = existing(target)
            if now is None or version(now) != version(before) or len(data) != before.st_size:
                raise Conflict(f"{workspace.shown(names)} was changed meanwhile: read it again")
            made.put(workspace, target, None)
    line = data.count(b"\n", 0, done.first) + 1
    shown = workspace.shown(names)
    return FileEdited(path=shown, replacements=done.replacements, first_line=line, size=len(done.data))


def version(info: os.stat_result) -> str:
    """Another one after every change of the content, as far as the file system tells."""
    return f"{info.st_ino}-{info.st_size}-{info.st_mtime_ns}-{info.st_ctime_ns}"
